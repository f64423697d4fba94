"""A linked program on several hosts: until its first step, until it goes on after deaths, bytes on the wire, step time over 1 Gb/s links.

Hosts are machines made of namespaces on this one: they share its cores. first_commit: from just before the first launcher's exec. dies:
from the SIGKILL to the next committed step as the first host records it, less the run's median step: of one worker of two on a host;
of all that is a host's (killed: its kernel closes its connections); of a machine (power: nothing comes any more, and the silence limit
of 1 s is taken off, too). bytes: what a host sends and receives in a step over 2 (N - 1) / N of the gradients' size, each way, the worst
host's. 1gbit: a step's time over that of its computing or of its bytes on links of 1 Gb/s, whichever is longer.

Checked: every run ends with the weights of one worker that held all shares.
"""
import json
import os
import shutil
import signal
import sys
import time

from figures.common import ROOT, jsons, launch, median, weights_hash

sys.path.insert(0, os.path.join(ROOT, "tests/support"))
import hosts  # noqa: E402

PORT = 29400
WIRE = 1e9 / 8 * 0.957  # bytes a second that TCP carries over 1 Gb/s
LIMIT_S = 120


class Run:
    """step_rate on all machines of a bed."""

    def __init__(self, bench, bed, workers, model, steps, virtual_workers, options=()):
        self.bench, self.bed, self.workers, self.folder = bench, bed, workers, os.path.join(str(bed.folder), "run")
        for machine in bed:
            shutil.rmtree(self.output(machine), ignore_errors=True)
        bench.idle()
        self.before = [machine.bytes() for machine in bed]
        key = launch([bench.lockstep, "key", "--print"]).strip()
        self.begin = time.monotonic()
        self.launchers = []
        for machine in bed:
            log = open(self.log(machine), "w")
            self.launchers.append(machine.start(
                bench.lockstep, "run", "--nnodes", str(len(workers)), "--node-rank", str(machine.index - 1), "--nproc-per-node",
                str(workers[machine.index - 1]), "--rdzv-endpoint", f"{bed[1].address}:{PORT}", "--rdzv-id", "bench", *options,
                bench.program("step_rate"), model, "5", str(steps), str(virtual_workers), f"/srv/run{machine.index}",
                env={"OMP_NUM_THREADS": "1", "LOCKSTEP_RUN_KEY": key}, stdout=log, stderr=log))

    def output(self, machine):
        return f"{self.folder}{machine.index}"

    def log(self, machine):
        return f"{self.folder}{machine.index}.log"

    def text(self, machine):
        return open(self.log(machine)).read()

    def fail(self, what):
        raise RuntimeError(f"hosts: {what}\n" + "".join(f"== {machine.name}\n{self.text(machine)[-1500:]}" for machine in self.bed))

    def committed(self):
        try:
            with open(self.output(self.bed[1]) + "/metrics.jsonl", "rb") as records:
                return records.read().count(b"\n")
        except OSError:
            return 0

    def until(self, count):
        """The moment in which the first host has recorded so many steps."""
        end = time.monotonic() + LIMIT_S
        while (now := self.committed()) < count:
            if time.monotonic() > end or self.launchers[0].poll() is not None:
                self.fail(f"{now} steps of {count}")
            time.sleep(0.0005)
        return time.monotonic()

    def until_next(self):
        return self.until(self.committed() + 1)

    def end(self, expected, without=()):
        for machine, launcher in zip(self.bed, self.launchers):
            code = launcher.wait(timeout=LIMIT_S)
            if machine.index not in without and code != 0:
                self.fail(f"{machine.name} ended with {code}")
        texts = [self.text(machine) for machine in self.bed if machine.index not in without]
        if any(weights_hash(text) != expected for text in texts):
            self.fail(f"a run gave other weights than {expected}")
        return next(filter(None, map(jsons, texts)), [{}])[0]

    def moved(self):
        """(sent, received) by each machine since the start."""
        return [[now - then for now, then in zip(machine.bytes(), before)] for machine, before in zip(self.bed, self.before)]


def alone(bench, model, steps, virtual_workers):
    """(weights, what it told) of one worker with all shares."""
    text = launch(bench.run(1, bench.program("step_rate"), model, "5", str(steps), str(virtual_workers), bench.path("hosts-alone")))
    return weights_hash(text), jsons(text)[0]


def kill_worker(run):
    """A member of the last machine, whose pid the machine has otherwise."""
    machine = run.bed[len(run.workers)]
    status = machine.run(run.bench.lockstep, "status", "--json", f"/srv/run{machine.index}").stdout
    inside = [member["pid"] for member in json.loads(status)["members"] if member["rank"] is not None][-1]
    victim = next(pid for pid in machine.pids() if pid_inside(pid) == inside)
    then = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    return then


def pid_inside(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(next(line for line in status if line.startswith("NSpid:")).split()[-1])


def kill_host(run):
    then = time.monotonic()
    run.bed[len(run.workers)].kill_all()
    return then


def cut_power(run):
    then = time.monotonic()
    run.bed[len(run.workers)].kill()
    return then


DEATHS = {"worker": (kill_worker, (2, 2, 2), False, 0, ()), "host": (kill_host, (1, 1, 1), True, 0, ()),
          "power": (cut_power, (1, 1, 1), True, 1, ("--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=1"))}
GOALS_MS = {"worker": 25, "host": 1000, "power": 1000}


def deaths(bench):
    steps, virtual_workers = 150, 6
    expected, _ = alone(bench, "convnet", steps, virtual_workers)
    for name, (kill, workers, is_lost, silence_s, options) in DEATHS.items():
        samples = []
        for _ in range(2 if bench.quick else 8):
            with hosts.Bed(len(workers)) as bed:
                run = Run(bench, bed, workers, "convnet", steps, virtual_workers, options)
                run.until(20)
                moments = [run.until_next() for _ in range(12)]
                step = median([b - a for a, b in zip(moments, moments[1:])])
                then = kill(run)
                samples.append(1000 * (run.until_next() - then - step - silence_s))
                run.end(expected, (len(workers),) if is_lost else ())
        bench.row(f"hosts/{name}_dies", "ms", samples, goal=GOALS_MS[name])


def first_commit(bench):
    samples = []
    expected, _ = alone(bench, "convnet", 5, 2)
    for _ in range(3 if bench.quick else 9):
        with hosts.Bed(2) as bed:
            run = Run(bench, bed, (1, 1), "convnet", 5, 2)
            samples.append(run.until(1) - run.begin)
            run.end(expected)
    bench.row("hosts/first_commit", "s", samples, goal=1)


def wire(bench):
    """Of two lengths of run the difference: what belongs to steps alone."""
    for count in (2, 4):
        told, moved = {}, {}
        for steps in (5, 45):
            expected, told[steps] = alone(bench, "wide_mlp", steps, count)
            with hosts.Bed(count) as bed:
                run = Run(bench, bed, (1,) * count, "wide_mlp", steps, count)
                run.end(expected)
                moved[steps] = run.moved()
        least = 2 * (count - 1) / count * told[5]["gradient_bytes"] * 40
        worst = max(more - less for one, other in zip(moved[5], moved[45]) for less, more in zip(one, other))
        bench.row(f"hosts/{count}/bytes", "x", [worst / least], goal=1.02)


def over_1gbit(bench):
    steps = 20 if bench.quick else 60
    expected, both = alone(bench, "wide_mlp", steps, 2)
    computing = 0.5 / both["steps_per_s"]  # of one share
    wire_s = both["gradient_bytes"] / WIRE
    samples = []
    for _ in range(1 if bench.quick else 3):
        with hosts.Bed(2) as bed:
            for machine in bed:
                machine.rate("1gbit")
            told = Run(bench, bed, (1, 1), "wide_mlp", steps, 2).end(expected)
            samples.append(1 / told["steps_per_s"] / max(computing, wire_s))
    bench.row("hosts/2/1gbit", "x", samples, note=f"computing {computing * 1000:.0f} ms, wire {wire_s * 1000:.0f} ms a step")


def measure(bench):
    if hosts.missing():
        print(f"  hosts: {hosts.missing()}")
        return
    first_commit(bench)
    deaths(bench)
    wire(bench)
    over_1gbit(bench)
