"""Runs of step_rate on machines made of namespaces, for the figures about hosts."""
import json
import os
import shutil
import sys
import time

from figures.common import ROOT, jsons, launch, weights_hash

sys.path.insert(0, os.path.join(ROOT, "tests/support"))
import hosts  # noqa: E402

PORT = 29400
WIRE = 1e9 / 8 * 0.957  # bytes a second that TCP carries over 1 Gb/s
LIMIT_S = 120


def on_a_core(machine, *command):
    """As of a machine with one core."""
    return "taskset", "-c", str(machine.index % os.cpu_count()), *command


class Run:
    """step_rate on all machines of a bed; `witness`: the number of that whose records tell of steps; `pinned`: a core for each."""

    def __init__(self, bench, bed, workers, model, steps, virtual_workers, options=(), witness=1, warm_up=5, pinned=False):
        self.bench, self.bed, self.workers, self.folder = bench, bed, workers, os.path.join(str(bed.folder), "run")
        self.witness = bed[witness]
        for machine in bed:
            shutil.rmtree(self.output(machine), ignore_errors=True)
        bench.idle()
        self.before = [machine.bytes() for machine in bed]
        key = launch([bench.lockstep, "key", "--print"]).strip()
        self.begin = time.monotonic()
        self.launchers = []
        for machine in bed:
            log = open(self.log(machine), "w")
            command = (
                bench.lockstep, "run", "--nnodes", str(len(workers)), "--node-rank", str(machine.index - 1), "--nproc-per-node",
                str(workers[machine.index - 1]), "--rdzv-endpoint", f"{bed[1].address}:{PORT}", "--rdzv-id", "bench", *options,
                bench.program("step_rate"), model, str(warm_up), str(steps), str(virtual_workers), f"/srv/run{machine.index}")
            self.launchers.append(machine.start(*(on_a_core(machine, *command) if pinned else command),
                                                env={"OMP_NUM_THREADS": "1", "LOCKSTEP_RUN_KEY": key}, stdout=log, stderr=log))

    def output(self, machine):
        return f"{self.folder}{machine.index}"

    def log(self, machine):
        return f"{self.folder}{machine.index}.log"

    def text(self, machine):
        return open(self.log(machine)).read()

    def fail(self, what):
        raise RuntimeError(f"hosts: {what}\n" + "".join(f"== {machine.name}\n{self.text(machine)[-1500:]}" for machine in self.bed))

    def committed(self, machine=None):
        """Steps in the records of a machine."""
        try:
            with open(self.output(machine or self.witness) + "/metrics.jsonl", "rb") as records:
                return records.read().count(b"\n")
        except OSError:
            return 0

    def until(self, count):
        """The moment in which the witness has recorded so many steps."""
        end = time.monotonic() + LIMIT_S
        while (now := self.committed()) < count:
            if time.monotonic() > end or self.launchers[self.witness.index - 1].poll() is not None:
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


def alone(bench, model, steps, virtual_workers, warm_up=5):
    """(weights, what it told) of one worker with all shares."""
    text = launch(bench.run(1, bench.program("step_rate"), model, str(warm_up), str(steps), str(virtual_workers), bench.path("hosts-alone")))
    return weights_hash(text), jsons(text)[0]
