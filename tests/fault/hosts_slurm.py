#!/usr/bin/env python3
"""examples/slurm/exact.sbatch under a real Slurm over machines of namespaces: nodes fail, launchers are killed, the time is up, and the job is
requeued where that helps; the weights are those of an undisturbed run.

Exit 77: skipped, where the system does not have what it needs.
"""
import os
import pathlib
import shlex
import signal
import sys
import unittest

import harness
from harness import LOCKSTEP, built, ending, undisturbed
from hosts_group import name_of, send_all

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import hosts  # noqa: E402
from hosts import slurm  # noqa: E402

EPOCHS, MORE_EPOCHS = 6, 9


def words(epochs):
    return ["--virtual-workers", "8", "--epochs", str(epochs), "--pieces", "480", "--log-every", "0", "--checkpoint-every", "10"]


class Exact(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = hosts.Bed(3)
        cls.addClassCleanup(cls.bed.close)
        cls.slurm = slurm.Slurm(cls.bed)
        cls.bed.program("lockstep", f'#!/bin/sh\nexec {shlex.quote(os.path.realpath(LOCKSTEP))} "$@"\n')
        (cls.bed.folder / "exact.sbatch").write_text((ROOT / "examples/slurm/exact.sbatch").read_text())
        cls.program = os.path.realpath(built("language_model"))
        cls.wanted = {epochs: undisturbed(program=lambda output, epochs=epochs: [cls.program, *words(epochs), "--output", str(output)])
                      for epochs in (EPOCHS, MORE_EPOCHS)}

    def submit(self, epochs=EPOCHS):
        self.epochs, self.output = epochs, self.bed.folder / self._testMethodName
        env = {"LOCKSTEP_RUN_KEY": "5e1f0c9d" * 8, "PATH": f"/srv:{os.environ['PATH']}", "OUTPUT": f"/srv/{self._testMethodName}",
               "OMP_NUM_THREADS": "1"}
        options = ("--parsable", "--output=/srv/out-%j", "--cpus-per-task=1", "--nodes=3")
        return int(self.slurm.run("sbatch", *options, "/srv/exact.sbatch", self.program, *words(epochs), env=env).stdout)

    def until_committed(self, job, node, count):
        def ready():
            file = self.output / str(node) / "metrics.jsonl"
            return file.exists() and file.read_bytes().count(b"\n") >= count
        try:
            self.slurm.wait_for(ready, f"{count} steps of node {node}", 60)
        except hosts.Missing as error:
            self.fail(f"{error}\n{self.slurm.output(job)}")

    def completed(self, job, nodes):
        state = self.slurm.wait_for(lambda: (found := self.slurm.state(job))[0] not in ("PENDING", "RUNNING", "COMPLETING", "REQUEUED") and found,
                                    f"end of job {job}: {self.slurm.output(job)[-2000:]}", 120)
        self.assertEqual(state, ("COMPLETED", "0:0"), self.slurm.output(job))
        for node in nodes:
            run = harness.Run(self.output / str(node), None, delayed=True)
            self.assertEqual(ending(run), self.wanted[self.epochs], self.slurm.output(job))

    def boot(self, machine):
        machine.boot()
        self.slurm.join(machine)
        self.slurm.wait_for(lambda: self.slurm.idle() == 3, "nodes", 60)

    def test_a_job_is_requeued_and_goes_on(self):
        job = self.submit()
        self.until_committed(job, 0, 30)
        self.slurm.run("scontrol", "requeue", str(job))
        self.completed(job, (0, 1, 2))
        self.assertIn("resum", self.slurm.output(job))

    def test_a_node_fails_and_the_others_go_on(self):
        self.addCleanup(self.boot, self.bed[3])
        job = self.submit()
        self.until_committed(job, 0, 30)
        self.bed[3].kill()
        self.completed(job, (0, 1))
        self.assertIn("node 2 is lost", self.slurm.output(job))

    def test_too_many_launchers_are_killed_and_the_job_is_requeued(self):
        """srun's code is that of their deaths, not the 75 of the one that is left."""
        job = self.submit()
        self.until_committed(job, 0, 30)
        first, *others = [next(pid for pid in machine.pids() if name_of(pid) == "lockstep") for machine in self.bed]
        for number, pids in ((signal.SIGSTOP, [first]), (signal.SIGKILL, others), (signal.SIGCONT, [first])):  # it sees both at once
            self.assertTrue(send_all(pids, number))
        self.completed(job, (0, 1, 2))
        self.assertIn("too few to go on", self.slurm.output(job))

    def test_a_finished_run_goes_on_with_more_epochs_and_its_time_is_up(self):
        """There is a result: the earlier run's."""
        self.completed(self.submit(), (0, 1, 2))
        steps = len((self.output / "0/metrics.jsonl").read_bytes().splitlines())
        job = self.submit(MORE_EPOCHS)
        self.until_committed(job, 0, steps + 30)
        self.slurm.run("scancel", "--signal=TERM", str(job))
        self.completed(job, (0, 1, 2))
        self.assertIn("stopped by SIGTERM", self.slurm.output(job))


if __name__ == "__main__":
    hosts.enter()
    if why := hosts.missing() or slurm.missing():
        print(f"skipped: {why}")
        sys.exit(77)
    unittest.main()
