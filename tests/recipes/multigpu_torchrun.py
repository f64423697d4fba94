#!/usr/bin/env python3
"""Tutorial 003's recipe beside stock PyTorch: equal weights, lines, snapshots both ways, whoever is killed; and its spawn form.

Environment: beside_python.py.
"""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import beside_python  # noqa: E402
from beside_python import LOCKSTEP, PYTHON, RECIPE, BesidePython, Started, by_hand_place, run, without_duration  # noqa: E402

EPOCHS, SAVE_EVERY = 4, 2
MULTIGPU = pathlib.Path(RECIPE).with_name("multigpu")


def python(folder, epochs=EPOCHS):
    return beside_python.python(folder, epochs, SAVE_EVERY)


def recipe(folder, workers, epochs=EPOCHS, options=(), launcher=()):
    return beside_python.recipe(folder, workers, epochs, SAVE_EVERY, "--virtual-workers", 2, *options, launcher=launcher)


def spawned(folder, workers, epochs=EPOCHS, inject=""):
    """multigpu, without the time it took; `inject` by the environment, as all options of the launcher."""
    variables = ["env", f"LOCKSTEP_LAUNCHER={LOCKSTEP}", f"PET_INJECT={inject}"][:3 if inject else 2]
    out, err = run(folder, *variables, MULTIGPU, epochs, SAVE_EVERY, "--nprocs", workers, "--virtual-workers", 2)
    return without_duration(out), err


def weights_of(folder, file, key=""):
    script = ("import torch; s = torch.load(%r, weights_only=True); s = s[%r] if %r else s; "
              "print([(k, v.numpy().tobytes().hex()) for k, v in sorted(s.items())])" % (file, key, key))
    return run(folder, PYTHON, "-c", script)[0]


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

    def test_three_virtual_workers(self):
        theirs, ours = self.folder("three-ranks"), self.folder("three-virtual-workers")
        weights = beside_python.python(theirs, EPOCHS, SAVE_EVERY, ranks=3).splitlines()[-1]
        out, _ = recipe(ours, 2, options=["--virtual-workers", 3])
        self.assertEqual(out.splitlines()[-1], weights)
        self.assert_losses(ours, theirs)

    def test_killed_in_mid_epoch(self):
        whole, _ = recipe(self.folder("whole"), 2)
        killed, err = recipe(self.folder("killed"), 2, launcher=["--inject", "kill rank=1 txn=40 phase=backward"])
        self.assertIn("replacement is started", err)
        self.assertEqual(killed, whole)

    def test_each_of_many_virtual_workers_has_its_line_and_a_kill_changes_none(self):
        options = ["--virtual-workers", 200, "--batch_size", 4]
        out, err = recipe(self.folder("many"), 3, options=options, launcher=["--inject", "kill rank=1 txn=1 phase=backward"])
        self.assertIn("replacement is started", err)
        expected = []
        for epoch in range(EPOCHS):
            expected += [f"[GPU{v}] Epoch {epoch} | Batchsize: 4 | Steps: 3" for v in range(200)]
            if epoch % SAVE_EVERY == 0:
                expected.append(f"Epoch {epoch} | Training snapshot saved at snapshot.pt")
        self.assertEqual(out.splitlines()[:-1], expected)
        alone, _ = recipe(self.folder("many-alone"), 1, options=options)
        self.assertEqual(alone, out)

    def test_started_by_hand_and_killed(self):
        """torch's env://: one command for each rank. The killed one comes again by the same command."""
        expected, _ = recipe(self.folder("launched"), 2, epochs=400)
        folder, (host, port) = self.folder("by-hand"), by_hand_place().split(":")

        def rank(number):
            return Started(folder, RECIPE, 400, SAVE_EVERY, "--virtual-workers", 2, MASTER_ADDR=host, MASTER_PORT=port, WORLD_SIZE="2",
                           RANK=str(number), LOCKSTEP_INIT_TIMEOUT="60")

        with rank(1) as second, rank(0) as first:
            first.until_line("[GPU0] Epoch 3 ")
            second.kill()
            with rank(1) as again:
                out = first.finish()
                again.finish()  # also if the others were done before
        self.assertEqual(without_duration(out), expected)

    def test_resumes_with_another_number_of_workers(self):
        folder = self.folder("resumed")
        recipe(folder, 1, epochs=2)
        out, err = recipe(folder, 2)
        self.assertNotIn("warning", err, "more epochs are no change of the arithmetic")
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

    def test_a_snapshot_beyond_all_epochs_is_refused(self):
        folder = self.folder("beyond")
        python(folder, epochs=1)
        change = "import torch; s = torch.load('snapshot.pt', weights_only=True); s['EPOCHS_RUN'] = 2**63 - 1; torch.save(s, 'snapshot.pt')"
        run(folder, PYTHON, "-c", change)
        _, err = beside_python.recipe(folder, 1, EPOCHS, SAVE_EVERY, code=2)
        self.assertIn("has 9223372036854775807 epochs behind it", err)

    def test_the_loss_of_the_original_changes_nothing(self):
        weights = {recipe(self.folder(f"cross-{epochs}"), 1, epochs, ["--loss", "cross_entropy"])[0].splitlines()[-1]
                   for epochs in (1, 3)}
        self.assertEqual(len(weights), 1, "its gradient is zero")
        self.assertNotIn(self.weights, weights)

    # multigpu, the program with workers of its own, as mp.spawn starts them
    def test_spawned_weights_checkpoint_and_lines(self):
        ours = self.folder("spawned")
        out, _ = spawned(ours, 2)
        self.assertEqual(out.splitlines()[-1], self.weights)
        self.assertEqual(weights_of(ours, "checkpoint.pt"), weights_of(self.theirs, "snapshot.pt", "MODEL_STATE"))
        self.assertEqual(out.count("Training checkpoint saved at checkpoint.pt\n"), 2)
        self.assertEqual(out.splitlines()[:3], ["[GPU0] Epoch 0 | Batchsize: 32 | Steps: 32", "[GPU1] Epoch 0 | Batchsize: 32 | Steps: 32",
                                                "Epoch 0 | Training checkpoint saved at checkpoint.pt"])
        self.assertEqual(sorted(os.listdir(ours)), ["checkpoint.pt", "multigpu-run"])

    def test_spawned_and_killed_in_mid_epoch(self):
        whole, _ = spawned(self.folder("spawned-whole"), 2)
        killed, err = spawned(self.folder("spawned-killed"), 2, inject="kill rank=1 txn=40 phase=backward")
        self.assertIn("replacement is started", err)
        self.assertEqual(killed, whole)

    def test_spawned_resumes_with_another_number_of_workers(self):
        folder = self.folder("spawned-resumed")
        spawned(folder, 1, epochs=2)
        out, err = spawned(folder, 2)
        self.assertIn("resuming from", err)
        self.assertEqual(out.splitlines()[-1], self.weights)


if __name__ == "__main__":
    unittest.main(verbosity=2)
