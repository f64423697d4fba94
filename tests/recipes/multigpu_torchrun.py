#!/usr/bin/env python3
"""Tutorial 003's recipe beside stock PyTorch: equal weights, lines, snapshots both ways, whoever is killed.

Environment: beside_python.py.
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import beside_python  # noqa: E402
from beside_python import PYTHON, BesidePython, run  # noqa: E402

EPOCHS, SAVE_EVERY = 4, 2


def python(folder, epochs=EPOCHS):
    return beside_python.python(folder, epochs, SAVE_EVERY)


def recipe(folder, workers, epochs=EPOCHS, options=(), launcher=()):
    return beside_python.recipe(folder, workers, epochs, SAVE_EVERY, "--virtual-workers", 2, *options, launcher=launcher)


def snapshot_of(folder):
    script = ("import hashlib, torch; s = torch.load('snapshot.pt', weights_only=True); "
              "print(s['EPOCHS_RUN'], [(k, v.numpy().tobytes().hex()) for k, v in sorted(s['MODEL_STATE'].items())])")
    return run(folder, PYTHON, "-c", script)[0]


class MultiGpuTorchrun(BesidePython):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.theirs = cls.folder("theirs")
        cls.weights = python(cls.theirs).strip().splitlines()[-1]

    def test_weights_snapshot_and_lines(self):
        ours = self.folder("ours")
        out, _ = recipe(ours, 2)
        self.assertEqual(out.splitlines()[-1], self.weights)
        self.assertEqual(snapshot_of(ours), snapshot_of(self.theirs))
        expected = []
        for epoch in range(EPOCHS):
            expected += [f"[GPU{v}] Epoch {epoch} | Batchsize: 32 | Steps: 32" for v in (0, 1)]
            if epoch % SAVE_EVERY == 0:
                expected.append(f"Epoch {epoch} | Training snapshot saved at snapshot.pt")
        self.assertEqual(out.splitlines()[:-1], expected)

    def test_killed_in_mid_epoch(self):
        whole, _ = recipe(self.folder("whole"), 2)
        killed, err = recipe(self.folder("killed"), 2, launcher=["--inject", "kill rank=1 txn=40 phase=backward"])
        self.assertIn("replacement", err)
        self.assertEqual(killed, whole)

    def test_resumes_with_another_number_of_workers(self):
        folder = self.folder("resumed")
        recipe(folder, 1, epochs=2)
        out, _ = recipe(folder, 2)
        self.assertEqual(out.splitlines()[:3], ["Loading snapshot", "Resuming training from snapshot at Epoch 2",
                                                "[GPU0] Epoch 2 | Batchsize: 32 | Steps: 32"])
        self.assertEqual(out.splitlines()[-1], self.weights)

    def test_goes_on_from_a_snapshot_of_pythons(self):
        folder = self.folder("imported")
        python(folder, epochs=1)
        out, err = recipe(folder, 2)
        self.assertEqual(out.splitlines()[:2], ["Loading snapshot", "Resuming training from snapshot at Epoch 1"])
        self.assertEqual(out.splitlines()[-1], self.weights)
        self.assertIn("with weights of elsewhere; the optimizer's state begins anew", err)

    def test_the_loss_of_the_original_changes_nothing(self):
        weights = {recipe(self.folder(f"cross-{epochs}"), 1, epochs, ["--loss", "cross_entropy"])[0].splitlines()[-1]
                   for epochs in (1, 3)}
        self.assertEqual(len(weights), 1, "its gradient is zero")
        self.assertNotIn(self.weights, weights)


if __name__ == "__main__":
    unittest.main(verbosity=2)
