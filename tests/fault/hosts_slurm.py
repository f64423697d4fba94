#!/usr/bin/env python3
"""examples/slurm/exact.sbatch under a real Slurm over machines of namespaces: a node fails, and the job is requeued; the weights are those
of an undisturbed run.

Exit 77: skipped, where the system does not have what it needs.
"""
import os
import pathlib
import shlex
import sys
import unittest

import harness
from harness import LOCKSTEP, built, ending, undisturbed

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import hosts  # noqa: E402
from hosts import slurm  # noqa: E402

WORDS = ["--virtual-workers", "8", "--epochs", "6", "--pieces", "480", "--log-every", "0", "--checkpoint-every", "10"]


class Exact(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = hosts.Bed(3)
        cls.addClassCleanup(cls.bed.close)
        cls.slurm = slurm.Slurm(cls.bed)
        cls.bed.program("lockstep", f'#!/bin/sh\nexec {shlex.quote(os.path.realpath(LOCKSTEP))} "$@"\n')
        (cls.bed.folder / "exact.sbatch").write_text((ROOT / "examples/slurm/exact.sbatch").read_text())
        cls.program = os.path.realpath(built("language_model"))
        cls.wanted = undisturbed(program=lambda output: [cls.program, *WORDS, "--output", str(output)])

    def submit(self):
        self.output = self.bed.folder / self._testMethodName
        env = {"LOCKSTEP_RUN_KEY": "5e1f0c9d" * 8, "PATH": f"/srv:{os.environ['PATH']}", "OUTPUT": f"/srv/{self._testMethodName}",
               "OMP_NUM_THREADS": "1"}
        options = ("--parsable", "--output=/srv/out-%j", "--cpus-per-task=1", "--nodes=3")
        return int(self.slurm.run("sbatch", *options, "/srv/exact.sbatch", self.program, *WORDS, env=env).stdout)

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
            self.assertEqual(ending(run), self.wanted, self.slurm.output(job))

    def test_a_job_is_requeued_and_goes_on(self):
        job = self.submit()
        self.until_committed(job, 0, 30)
        self.slurm.run("scontrol", "requeue", str(job))
        self.completed(job, (0, 1, 2))
        self.assertIn("resum", self.slurm.output(job))

    def test_a_node_fails_and_the_others_go_on(self):
        job = self.submit()
        self.until_committed(job, 0, 30)
        self.bed[3].kill()
        self.completed(job, (0, 1))
        self.assertIn("node 2 is lost", self.slurm.output(job))


if __name__ == "__main__":
    hosts.enter()
    if why := hosts.missing() or slurm.missing():
        print(f"skipped: {why}")
        sys.exit(77)
    unittest.main()
