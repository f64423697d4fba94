#!/usr/bin/env python3
"""The first loss line that tutorial 002 printed of one process, reproduced on real MNIST (golden_ddp-* have the others). Exit 77: it is
not here.

LOCKSTEP_TEST_DATA  folder with mnist/; default: ../shared/data beside the checkout
"""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from beside_python import HERE, BesidePython, recipe  # noqa: E402

MNIST = pathlib.Path(os.environ.get("LOCKSTEP_TEST_DATA") or HERE.parent.parent.parent / "shared/data") / "mnist"


class Tutorial(BesidePython):
    def assert_agrees(self, mode, line, run):
        out, _ = recipe(self.folder(mode), 1, "--mode", mode, "--data", MNIST, "--max-steps", 100, "--checkpoint-every", 0,
                        "--check-against-tutorial")
        self.assertIn(line, out)
        self.assertIn(f"Tutorial, {run}: 1 of 1 lines equal to all four decimals", out)

    def test_one_gpu(self):
        self.assert_agrees("single", "Epoch [1/10], Step [100/600], Loss: 2.1626", "one GPU")

    def test_data_parallel(self):
        self.assert_agrees("dp", "Epoch [1/10], Step [100/600], Loss: 2.1628", "DataParallel")


if __name__ == "__main__":
    if not MNIST.is_dir():
        print(f"skipped: no MNIST: '{MNIST}' does not exist; set LOCKSTEP_TEST_DATA to a folder that has mnist/")
        sys.exit(77)
    unittest.main(verbosity=2)
