#!/usr/bin/env python3
"""The linear regression of tutorial 000 beside stock PyTorch: equal losses, weights and lines, whoever is killed."""
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from beside_python import LOCKSTEP, RECIPE, BesidePython, python, recipe, run, without_duration  # noqa: E402

EPOCHS, BATCH = 6, 4  # 16 steps an epoch


class LinearRegression(BesidePython):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.theirs = cls.folder("theirs")
        cls.printout = python(cls.theirs, EPOCHS, BATCH)

    def recipe(self, folder, workers, *options, **more):
        return recipe(folder, workers, "--epochs", EPOCHS, "--batch-size", BATCH, "--virtual-workers", 2, *options, **more)

    @staticmethod
    def names_on_disk(folder):
        """But for the incidents."""
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.parent.name != "incidents")

    def test_losses_weights_and_lines(self):
        ours = self.folder("ours")
        out, _ = self.recipe(ours, 2)
        self.assert_losses(ours, self.theirs)
        self.assertEqual(out, self.printout)
        lines = out.splitlines()
        self.assertEqual(lines[:2] + lines[-3:-1], ["Epoch 1", "-" * 31, "Done!", "Done!"])
        self.assertRegex(lines[3], r"^loss: [0-9]+\.[0-9]{6}  \[    0/  128\]$")
        self.assertEqual(len(lines), EPOCHS * 4 + 3)

    def test_killed_in_mid_epoch(self):
        folder = self.folder("killed")
        out, _ = self.recipe(folder, 2, launcher=["--inject", "kill rank=1 txn=40 phase=backward"])
        self.assert_incidents(folder, 1)
        self.assertEqual(out, self.printout)

    def test_resumes_in_mid_epoch_with_another_number_of_workers(self):
        folder = self.folder("resumed")
        first, _ = self.recipe(folder, 1, "--max-steps", 40)
        *lines, cut, _ = first.splitlines()
        self.assertIn("The run ends here, at step 8 of 16 of epoch 3", cut)
        second, _ = self.recipe(folder, 2)
        self.assertEqual(lines + second.splitlines(), self.printout.splitlines())

    def test_one_line_of_each_of_four_ranks(self):
        theirs, ours = self.folder("four-ranks"), self.folder("alone")
        printout = python(theirs, EPOCHS, BATCH, ranks=4)
        alone, _ = self.recipe(ours, 1, "--virtual-workers", 4)
        self.assertEqual(alone, printout)
        self.assert_losses(ours, theirs)
        folder = self.folder("three")
        three, _ = self.recipe(folder, 3, "--virtual-workers", 4, launcher=["--inject", "kill rank=0 txn=20 phase=exchange"])
        self.assert_incidents(folder, 1)
        self.assertEqual(three, alone)
        self.assertEqual(*(self.names_on_disk(each) for each in (ours, folder)))
        lines = alone.splitlines()
        self.assertEqual(len(lines), EPOCHS * 6 + 5)
        self.assertEqual(len({line for line in lines if line.startswith("loss: ")}), EPOCHS * 4, "each rank has samples of its own")

    def test_each_of_many_ranks_has_its_lines(self):
        out, _ = self.recipe(self.folder("many"), 1, "--virtual-workers", 100, "--epochs", 1)
        self.assertEqual([out.count("loss: "), out.count("Done!")], [100, 100])
        self.assertEqual(len(out.splitlines()), 2 + 100 + 100 + 1)

    def test_workers_of_its_own_as_mp_spawn_starts_them(self):
        """Killed or not, what `lockstep run` makes of it."""
        for name, inject, incidents in (("spawned", {}, 0), ("spawned-killed", {"PET_INJECT": "kill rank=1 txn=40 phase=backward"}, 1)):
            folder = self.folder(name)
            out, _ = run(folder, RECIPE, "--epochs", EPOCHS, "--batch-size", BATCH, "--spawn", 2, LOCKSTEP_LAUNCHER=LOCKSTEP, **inject)
            self.assertEqual(without_duration(out), self.printout)
            self.assert_incidents(folder, incidents)
        self.assertIn("spawn", self.recipe(self.folder("twice"), 2, "--spawn", 2, code=2)[1])

    def test_lines_at_samples_and_epochs(self):
        def losses(every):
            out, _ = self.recipe(self.folder(every), 1, "--epochs", 4, "--log-every", every)
            return re.findall(r"\[ *(\d+)/", out)

        self.assertEqual(losses("1ep"), ["0", "0"] * 4)
        self.assertEqual(losses("2ep"), ["0", "0"] * 2)
        self.assertEqual(losses("64sp"), ["0", "0", "32", "32"] * 4)

    def test_fast_operations_are_asked_for_by_name_and_said(self):
        folder = self.folder("fast")
        _, err = self.recipe(folder, 2, "--deterministic", "off", "--max-steps", 40)
        self.assertEqual(err.count("--deterministic off: an operation may give other bits each time"), 1)
        out, err = self.recipe(folder, 2)  # and goes on without
        self.assertNotIn("--deterministic", err)
        self.assertEqual(out.splitlines()[-1], self.printout.splitlines()[-1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
