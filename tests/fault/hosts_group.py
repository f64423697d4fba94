"""Launchers of a linked program's run on several hosts, all on this machine: started, watched, killed host by host.

    environment: harness.py
"""
import itertools
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

import harness
from harness import LOCKSTEP, records

NUMBERS = itertools.count()  # of the groups of this process
PORTS = itertools.count(20000 + os.getpid() * 40 % 8000)
RESUMABLE = 75
MARK = "LOCKSTEP_FAULT_HOST"  # in the environment of all that belongs to a host


def environ_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # gone in the meantime
        return b""


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def is_stopped(pid):
    try:
        return harness.state_of(pid) in "Tt"
    except OSError:
        return False


def marked(text):
    """Live processes whose mark begins so."""
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and int(entry) != os.getpid()]
    return [pid for pid in pids if f"{MARK}={text}".encode() in environ_of(pid) and is_alive(pid)]


def is_alive(pid):
    try:
        return harness.state_of(pid) not in "ZX"
    except OSError:
        return False


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def send_all(pids, number):
    """Whether all of them were there."""
    return all([send(pid, number) for pid in pids])


def free_port():
    """Below those that the kernel gives to others meanwhile; another one each time."""
    for port in PORTS:
        try:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
                return port
        except OSError:
            pass


class Host:
    def __init__(self, group, rank, workers):
        self.group, self.rank, self.workers = group, rank, workers
        self.output, self.log = group.folder / f"host-{rank}" / "run", group.folder / f"log-{rank}"
        self.mark, self.process = f"{group.name}/{rank}.", None
        self.earlier, self.found = "", set()  # before start_again(): what it said; what its launcher, if it was killed, left
        self.environment = {}  # beside all that has to be there
        self.launcher = LOCKSTEP

    def start(self, options=(), program=None):
        words = [self.launcher, "run", "--nnodes", len(self.group.hosts), "--node-rank", self.rank, "--nproc-per-node", self.workers,
                 "--rdzv-endpoint", self.group.endpoint, "--rdzv-id", self.group.name, *self.group.options, *options,
                 *(program or self.group.program)(self.output_there())]
        with open(self.log, "a") as log:
            log.write(f"$ {' '.join(map(str, words))}\n")
            log.flush()
            self.process = self.begin(list(map(str, words)), log)

    def begin(self, words, log):
        there = {MARK: self.mark, "TMPDIR": str(self.group.temporary), **self.environment}
        environment = {**harness.environment(), **there}
        return subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)

    def output_there(self):
        """The run directory as the launcher has it."""
        return self.output

    def text(self):
        return self.log.read_text(errors="replace")

    def committed(self):
        try:
            return (self.output / "metrics.jsonl").read_bytes().count(b"\n")
        except OSError:
            return 0

    def pids(self):
        return marked(self.mark)

    def link(self):
        return next((pid for pid in self.pids() if name_of(pid) == "lockstep-link"), None)

    def children(self):
        """Of its launcher, as workers are, too."""
        launcher = next((pid for pid in self.pids() if name_of(pid) == "lockstep"), None)
        try:
            return set(map(int, pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()))
        except OSError:
            return set()

    def ask(self, *words):
        return subprocess.run([LOCKSTEP, *words], capture_output=True, text=True)

    def members(self):
        done = self.ask("status", self.output_there(), "--json")
        text = done.stdout if done.returncode == 0 else '{"members": []}'
        return harness.json.loads(text)["members"]

    def newest_checkpoint(self):
        return max((path.name for path in (self.output / "checkpoints").glob("step-*")), default="")

    def worker_pids(self):
        return [member["pid"] for member in self.members() if member["rank"] is not None]

    def all_workers(self):
        """Those in the newest table, in their order, once they are as many as the host shall have; none of them is to die."""
        def found():
            pids = [pid for pid in self.worker_pids() if pid not in self.group.killed and is_alive(pid)]
            return pids if len(pids) == self.workers else None
        return self.group.until(found, f"all workers of host {self.rank}")

    def kill(self):
        """Agent, link and workers, with whoever they start meanwhile."""
        while pids := self.pids():
            send_all(pids, signal.SIGKILL)
            self.process.poll()

    def unfinished(self):
        return list(self.output.rglob(".tmp-*"))

    def ending(self):
        result = harness.json.loads((self.output / "result.json").read_text())
        hashes = {key: result[key] for key in ("weights_sha256", "state_sha256", "steps")}
        return {"hashes": hashes, **{name: records(self.output / name) for name in ("ledger.jsonl", "metrics.jsonl")}}


class Group:
    """All hosts of one case; every wait has a deadline, and a failure shows each host's log."""

    LIMIT_S = 90

    def __init__(self, name, workers, program, options=(), folder=None, kind=Host):
        self.name = f"{name}.{os.getpid()}.{next(NUMBERS)}"  # no other's, whoever runs the same test
        self.program, self.options, self.endpoint = program, options, f"127.0.0.1:{free_port()}"
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=folder or harness.scratch(), prefix="hosts-"))
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.killed = set()
        self.lost, self.without, self.deaths = (), (), 0  # what the first host must say: hosts lost, without workers; deaths
        self.hosts = [None] * len(workers)
        self.hosts = [kind(self, rank, count) for rank, count in enumerate(workers)]

    def start(self, options=None):
        """`options`: more of them for single hosts, by rank."""
        for host in self.hosts:
            host.start((options or {}).get(host.rank, ()))

    def start_again(self):
        """The same commands, of which each begins a log of its own."""
        for host in self.hosts:
            host.earlier += host.text()
            host.found = set(host.unfinished())
            host.log.unlink()
        self.start()

    def until(self, condition, what, seconds=LIMIT_S, may_end=False):
        end = time.monotonic() + seconds
        while not (value := condition()):
            if time.monotonic() > end:
                self.fail(f"waited {seconds} s for {what}")
            codes = [host.process.poll() for host in self.hosts]
            if not may_end and any(code is not None for code in codes):
                self.fail(f"a launcher has ended before {what}: {codes}")
            time.sleep(0.005)
        return value

    def until_committed(self, count):
        self.until(lambda: max(host.committed() for host in self.hosts) >= count, f"{count} transactions")

    def until_said(self, host, pattern, seconds=LIMIT_S, may_end=False):
        self.until(lambda: re.search(pattern, self.hosts[host].text()), f"'{pattern}' of host {host}", seconds, may_end)

    def is_lost(self, rank):
        """By whoever leads."""
        return any(f"node {rank} is lost (" in host.text() for host in self.hosts)

    def until_lost(self, rank):
        self.until(lambda: self.is_lost(rank), f"the loss of node {rank}", may_end=True)

    def until_stopped(self, rank):
        """A worker of that host, by --inject."""
        return self.until(lambda: next((pid for pid in self.hosts[rank].pids() if is_stopped(pid)), None), f"a stop on host {rank}")

    def kill(self, pids):
        """Of workers that were there just now."""
        if not send_all(pids, signal.SIGKILL):
            self.fail("a worker that was to be killed had gone")
        self.killed.update(pids)
        self.deaths += len(pids)

    def kill_workers(self, hosts):
        """All at once for the launchers, which stand still meanwhile; as all have the same new checkpoint, so that none is left out."""
        workers, agents = [pid for host in hosts for pid in host.worker_pids()], [host.process.pid for host in hosts]
        before = [host.newest_checkpoint() for host in hosts]
        def is_there():
            now = [host.newest_checkpoint() for host in hosts]
            return len(set(now)) == 1 and now[0] > max(before)
        self.until(is_there, "a checkpoint of all", may_end=True)
        for number, pids in ((signal.SIGSTOP, agents), (signal.SIGKILL, workers), (signal.SIGCONT, agents)):
            if not send_all(pids, number):
                self.fail(f"{number.name} came too late")
        self.until_said(0, "the group starts again", may_end=True)

    def codes(self):
        end = time.monotonic() + self.LIMIT_S
        for host in self.hosts:
            try:
                host.process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.fail(f"the launcher of host {host.rank} does not end")
        return [host.process.returncode for host in self.hosts]

    def expect(self, codes):
        if (found := self.codes()) != list(codes):
            self.fail(f"exit codes {found}, not {list(codes)}")
        self.check_nothing_is_left()

    def check_told(self):
        told = "".join(host.text() for host in self.hosts)  # whoever leads
        if told.count("died (SIGKILL)") < self.deaths:
            self.fail(f"not all of {self.deaths} deaths are told")
        for what, ranks in (("is lost", self.lost), ("has no worker left", self.without)):
            for rank in ranks:
                if f"node {rank} {what}" not in told:
                    self.fail(f"nobody says that node {rank} {what}")

    def ended_without(self, rank):
        """It was on its way back when the others were through."""
        return "the run has ended while this node had no worker in it" in self.hosts[rank].text()

    def expect_exact(self, ranks, wanted):
        for rank in ranks:
            try:
                found = self.hosts[rank].ending()
            except OSError as error:
                self.fail(f"host {rank} has no result: {error}")
            for part, value in wanted.items():
                if found[part] != value:
                    self.fail(f"host {rank}: {part} differs: {first_difference(found[part], value)}")

    def check_nothing_is_left(self):
        end = time.monotonic() + 20
        while (left := marked(f"{self.name}/")) and time.monotonic() < end:
            time.sleep(0.02)
        if left:
            self.fail(f"left behind: {[(pid, name_of(pid), harness.state_of(pid)) for pid in left]}")
        names = [str(path) for path in self.temporary.rglob("*")]
        for host in self.hosts:
            code = host.process.returncode
            if code != -signal.SIGKILL:  # a launcher that is taken out may end before it has opened its directory
                names += [str(path) for path in host.unfinished() if code != RESUMABLE or path not in host.found]
        if names:
            self.fail(f"left behind: {names}")

    def told(self):
        def of(host):
            return f"== host {host.rank} ({host.committed()} transactions)\n{(host.earlier + host.text())[-5000:]}"
        return "".join(map(of, self.hosts))

    def fail(self, what):
        raise AssertionError(f"{what}\n{self.told()}")

    def end(self):
        send_all(marked(f"{self.name}/"), signal.SIGKILL)
        for host in self.hosts:
            if host.process:
                host.process.wait()


def first_difference(found, wanted):
    if isinstance(found, dict):
        return f"{found}, not {wanted}"
    at = next((i for i, pair in enumerate(zip(found, wanted)) if pair[0] != pair[1]), min(len(found), len(wanted)))
    return f"record {at} of {len(found)} and {len(wanted)}: {found[at:at + 1]}, not {wanted[at:at + 1]}"
