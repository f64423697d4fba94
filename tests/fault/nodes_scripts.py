#!/usr/bin/env python3
"""Training scripts as people write them for torchrun (scripts/), unchanged, on two and three machines whose names lead nowhere, to
127.0.1.1, or to where they should.

    nodes_scripts.py [Scripts.test ...]    (environment: nodes/__init__.py; LOCKSTEP_PYTHON: a Python with torch)

Exit 77: skipped, where the system has no machines, or no Python has torch.
"""
import os
import pathlib
import re
import subprocess
import sys

from nodes import LOCKSTEP, parallel
from nodes.case import OnMachines
from nodes.job import KEY

HERE = pathlib.Path(__file__).resolve().parent


def find_python():
    found = subprocess.run([HERE.parents[1] / "tools/find_python"], capture_output=True, text=True).stdout.strip()
    if not found:
        print("skipped: no Python with torch (tools/find_python)")
        sys.exit(77)
    return found


PYTHON = find_python()


class Scripts(OnMachines):
    def trains(self, script, count, names):
        """All ranks are there, and have the same weights at the end."""
        bed = self.bed(count, names=names)
        (bed.folder / "train.py").write_text((HERE / "scripts" / script).read_text())
        command = [LOCKSTEP, "run", "--nnodes", str(count), "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                   bed[1].address, "--rdzv-id", "job", "/srv/train.py"]
        env = {"LOCKSTEP_RUN_KEY": KEY, "PYTHON_EXEC": PYTHON, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        running = [machine.start(*command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for machine in bed]
        said = [process.communicate(timeout=200)[0] for process in running]
        text = "\n".join(said)
        self.assertEqual([process.returncode for process in running], [0] * count, text)
        ranks = re.findall(r"rank (\d+) of (\d+): ([0-9a-f]{64})", text)
        self.assertEqual(sorted(int(rank) for rank, _, _ in ranks), list(range(count)), text)
        self.assertEqual({int(world) for _, world, _ in ranks}, {count}, text)
        self.assertEqual(len({weights for _, _, weights in ranks}), 1, text)

    def needs(self, module):
        if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True).returncode != 0:
            self.skipTest(f"the Python that has torch here has no {module}")

    def test_ddp_with_right_names(self):
        self.trains("ddp.py", 2, "right")

    def test_ddp_with_names_of_their_own(self):
        self.trains("ddp.py", 3, "own")

    def test_ddp_without_names(self):
        self.trains("ddp.py", 2, "none")

    def test_lightning(self):
        self.needs("lightning")
        for count, names in ((2, "right"), (3, "none"), (2, "own")):
            self.trains("lightning_fit.py", count, names)

    def test_accelerate(self):
        self.needs("accelerate")
        for count, names in ((2, "right"), (3, "none"), (2, "own")):
            self.trains("accelerate_loop.py", count, names)


if __name__ == "__main__":
    parallel.main(2)
