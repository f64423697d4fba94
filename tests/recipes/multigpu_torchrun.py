#!/usr/bin/env python3
"""Tutorial 003's recipe beside stock PyTorch: equal weights, lines, snapshots both ways, whoever is killed.

LOCKSTEP_PROGRAM, LOCKSTEP_RECIPE, LOCKSTEP_TORCH_DIR (set by CTest). Exit 77: no Python with the same torch, with the reason.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
LOCKSTEP, RECIPE = os.environ["LOCKSTEP_PROGRAM"], os.environ["LOCKSTEP_RECIPE"]
EPOCHS, SAVE_EVERY = 4, 2


def find_python():
    found = subprocess.run([HERE.parent.parent / "tools/find_python"], capture_output=True, text=True)
    if found.returncode != 0:
        print(f"skipped: no Python with the same torch: {found.stderr.strip() or 'none found'}")
        sys.exit(77)
    return found.stdout.strip()


PYTHON = find_python()


def run(command, folder):
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True, timeout=100,
                          env=dict(os.environ, OMP_NUM_THREADS="1"))
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def python(folder, epochs=EPOCHS):
    return run([PYTHON, HERE / "multigpu_torchrun_peer.py", epochs, SAVE_EVERY], folder)[0]


def recipe(folder, workers, epochs=EPOCHS, options=(), launcher=()):
    """Standard output without the time it took, and standard error."""
    program = [RECIPE, epochs, SAVE_EVERY, "--virtual-workers", 2, *options]
    out, err = run([LOCKSTEP, "run", "--nproc-per-node", workers, *launcher, *program], folder)
    return re.sub("Training complete in: .*\n", "", out), err


def snapshot_of(folder):
    script = ("import hashlib, torch; s = torch.load('snapshot.pt', weights_only=True); "
              "print(s['EPOCHS_RUN'], [(k, v.numpy().tobytes().hex()) for k, v in sorted(s['MODEL_STATE'].items())])")
    return run([PYTHON, "-c", script], folder)[0]


class MultiGpuTorchrun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="lockstep-recipe-")
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.theirs = cls.folder("theirs")
        cls.weights = python(cls.theirs).strip().splitlines()[-1]

    @classmethod
    def folder(cls, name):
        folder = pathlib.Path(cls.scratch.name) / name
        folder.mkdir()
        return folder

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
