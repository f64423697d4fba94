"""One run over the machines of a bed: a launcher in each, its workers, and the witness."""
import contextlib
import itertools
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from nodes import LOCKSTEP
from nodes.witness import Witness

WORKER = Path(__file__).with_name("worker.py")
KEY = "0123456789abcdef" * 4
QUICK = "keep_alive_interval=1,keep_alive_max_attempt=2"
LIMIT = 2.0  # L, of QUICK
CALM = "keep_alive_interval=2,keep_alive_max_attempt=3"  # for what is to cost nothing, on a busy machine, too
CALM_LIMIT = 6.0
FORMING = 20.0  # for agents to meet, and workers to be with each other, on a busy machine


NUMBERS = itertools.count(1)


class Job:
    """A launcher on each of `machines`; their order is that of node ranks. The first has the endpoint.

    options  of the launchers, beside or in place of those that a run over several nodes needs; None: without it
    worker   of worker.py
    files    descriptors that each launcher may have (ulimit -Hn); None: as many as here
    """

    def __init__(self, bed, machines=None, options=None, worker=(), endpoint=None, per_node=1, conf=QUICK, env=None, files=None):
        self.bed, self.machines = bed, list(machines or bed)
        self.options, self.worker, self.per_node, self.conf, self.env = options or {}, worker, per_node, conf, env or {}
        self.limit = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"] if files else []
        self.endpoint = endpoint or f"{self.machines[0].name}:29400"
        for name in ("finish", "leave", "witness"):
            (bed.folder / name).unlink(missing_ok=True)
        self.witness = Witness(bed.folder / "witness")
        self.number = next(NUMBERS)  # of several runs on one bed
        self.ranks = {machine: rank for rank, machine in enumerate(self.machines)}
        self.agents = {}  # by machine: the last one started there
        self.given_up = set()
        self.errors = {}  # by machine: the file of the standard error of all that were started there

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for machine in self.bed:
            if machine.space:
                machine.wake()
                machine.kill_all()
        self.witness.close()

    def command(self, machine, **other):
        """Options that are None are left out."""
        several = {"nnodes": len(self.machines), "node-rank": self.ranks[machine], "rdzv-endpoint": self.endpoint, "rdzv-id": "test",
                   "rdzv-conf": self.conf, "nproc-per-node": self.per_node, "max-restarts": 1000}
        several.update(self.options)
        several.update({name.replace("_", "-"): value for name, value in other.items()})
        words = [word for name, value in several.items() if value is not None for word in (f"--{name}", value)]
        return [*self.limit, LOCKSTEP, "run", *map(str, words), "--no-python", sys.executable, "-SE", WORKER, *self.worker]

    def environment(self, more=None):
        return {"LOCKSTEP_RUN_KEY": KEY, **self.env, **(more or {})}

    def start(self, machine, env=None, **other):
        """Starts, or starts again, the launcher of one machine."""
        error = self.errors.setdefault(machine, self.bed.folder / f"{machine.name}.{self.number}.err")
        with error.open("ab") as file:
            agent = machine.start(*self.command(machine, **other), env=self.environment(env), stdout=file, stderr=file)
        self.agents[machine] = agent
        return agent

    def replace(self, old, new):
        """Another machine gets the rank of one; the launcher of that is left to the test."""
        self.machines[self.machines.index(old)] = new
        self.ranks[new] = self.ranks[old]
        left = self.agents.pop(old)
        self.start(new)
        return left

    def kill(self, machine):
        """Kills a launcher that will not be started again; what it leaves is its own."""
        agent = self.agents.pop(machine)
        agent.send_signal(signal.SIGKILL)
        agent.wait(10)
        self.given_up.add(machine)

    def start_all(self):
        for machine in self.machines:
            self.start(machine)
        return self

    def finish(self):
        """The program's end, from the next step on."""
        (self.bed.folder / "finish").touch()

    def leave(self):
        """The end of the worker that lingers until it is told."""
        (self.bed.folder / "leave").touch()

    def said(self, machine):
        return self.errors[machine].read_text(errors="replace")

    def until_said(self, machine, pattern, seconds=30):
        """Waits until the launcher there says it; the match."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.said(machine))):
            if time.monotonic() > end:
                raise AssertionError(f"{machine.name} did not say '{pattern}' within {seconds} s:\n{self.log()}")
            time.sleep(0.02)
        return found

    def until_works(self, attempt=0, seconds=LIMIT + FORMING, **more):
        try:
            return self.witness.until_works(attempt, seconds=seconds, **more)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}") from None

    def worker_on(self, machine):
        """One of the newest attempt that lives there, by the witness."""
        return next((w for w in self.witness.alive() if w.host == machine.name and w.attempt == self.witness.attempt()), None)

    def log(self):
        parts = [f"--- {machine.name}: {' '.join(map(str, self.command(machine)))}\n{self.said(machine)[-3000:]}" for machine in self.errors]
        return "\n".join(parts)

    def warnings(self):
        """What the launchers complained of, by machine."""
        return {m.name: found for m in self.errors if (found := re.findall(r".*(?:warning|error): .*", self.said(m)))}

    def expect_codes(self, *codes, seconds=30):
        """All launchers end with these codes: one for all, or one each."""
        end = time.monotonic() + seconds
        wanted = codes * len(self.agents) if len(codes) == 1 else codes
        try:
            for machine, agent in self.agents.items():
                agent.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{machine.name} still runs after {seconds} s; {self.witness}\n{self.log()}") from None
        told = tuple(agent.returncode for agent in self.agents.values())
        if told != tuple(wanted):
            raise AssertionError(f"exit codes {told}, not {tuple(wanted)}\n{self.log()}")

    def expect(self, *codes, seconds=30):
        """The same, and nothing is left of the run."""
        self.expect_codes(*codes, seconds=seconds)
        try:
            self.witness.check()
            self.check_clean()
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}") from None

    def check_clean(self, seconds=10):
        """Nothing is left on any machine, a moment later: processes, sockets, files outside the shared folder."""
        end = time.monotonic() + seconds
        while (problems := self.left()) and time.monotonic() < end:
            time.sleep(0.05)
        if problems:
            raise AssertionError("left behind: " + "\n".join(problems))

    def left(self):
        problems = []
        for machine in self.machines:
            if not machine.space:
                continue
            names = []
            for pid in machine.pids():
                with contextlib.suppress(OSError):  # it has just ended
                    names.append(Path(f"/proc/{pid}/cmdline").read_text())
            if names:
                problems.append(f"{machine.name}: processes {names}")
            # A launcher that was killed for good leaves its own files, which the next one there takes away; a leader's record, only where
            # another leader could go on from it.
            files = "find /tmp /var/tmp /dev/shm -mindepth 1; "
            if machine in self.given_up:
                files = "find /tmp -name '*.leader'; " if self.options.get("max-restarts") == 0 else ""
            found = machine.run("sh", "-c", files + "cut -c54- /proc/net/unix | grep @; "
                                "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '$4 == \"0A\"'", check=False).stdout
            if found:
                problems.append(f"{machine.name}: files and sockets\n{found}")
        return problems
