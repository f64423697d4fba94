#!/usr/bin/env python3
"""The MNIST trainer of tutorial 000 beside stock PyTorch: equal losses, weights and lines, files both ways, whoever is killed."""
import pathlib
import random
import shutil
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from beside_python import LOCKSTEP, PYTHON, RECIPE, BesidePython, Started, by_hand_place, python, recipe, run, without_duration  # noqa: E402

SAMPLES, BATCH, EPOCHS, SAVE_EVERY = 820, 4, 3, 2  # 103 steps an epoch, the last one shorter
FILE = "output_model/best_model.pt"


def write_digits(folder):
    """A tiny set in MNIST's format."""
    noise = random.Random(0)
    images, labels = noise.randbytes(SAMPLES * 784), bytes(noise.randrange(10) for _ in range(SAMPLES))
    (folder / "train-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, SAMPLES, 28, 28) + images)
    (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, SAMPLES) + labels)


class MnistTorchrun(BesidePython):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.folder("data")
        write_digits(cls.data)
        cls.theirs = cls.folder("theirs")
        cls.printout = cls.python(cls.theirs)
        cls.file = cls.file_of(cls.theirs)

    @classmethod
    def python(cls, folder, epochs=EPOCHS, *side):
        return python(folder, cls.data, epochs, BATCH, SAVE_EVERY, *side)

    def settings(self, *options):
        return ["--data", self.data, "--epochs", EPOCHS, "--batch-size", BATCH, "--save_every", SAVE_EVERY, *options]

    def recipe(self, folder, workers, *options, **more):
        return recipe(folder, workers, *self.settings("--virtual-workers", 2, *options), **more)

    def by_hand(self, folder, rank, *options):
        address, port = by_hand_place().split(":")
        return Started(folder, RECIPE, *self.settings(*options), RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR=address, MASTER_PORT=port,
                       LOCKSTEP_INIT_TIMEOUT="60")

    def assert_printed(self, out):
        self.assertEqual(without_duration(out), self.printout)

    @staticmethod
    def file_of(folder):
        script = (f"import torch; s = torch.load('{FILE}', weights_only=True); "
                  "print(list(s), s['epoch'], [(k, v.shape, v.numpy().tobytes().hex()) for k, v in s['model_state_dict'].items()])")
        return run(folder, PYTHON, "-c", script)[0]

    def test_losses_weights_lines_and_file(self):
        ours = self.folder("ours")
        out, _ = self.recipe(ours, 2)
        self.assert_losses(ours, self.theirs)
        self.assertEqual(out, self.printout)
        self.assertIn("loss: ", out.splitlines()[1])  # batch 100's, of rank 0 alone
        self.assertEqual(out.splitlines()[-6:-1], ["Epoch 3", "-" * 31, "Finished saving model", "", "Done!"])
        self.assertEqual(out.count("Done!\n"), 2)
        self.assertEqual(self.file_of(ours), self.file)

    def test_pictures_of_another_size(self):
        """Larger in one, smaller in the other."""
        for side in (14, 33):
            theirs, ours = self.folder(f"theirs-{side}"), self.folder(f"ours-{side}")
            printout = self.python(theirs, 1, side)
            out, _ = self.recipe(ours, 1, "--epochs", 1, "--image-size", side)
            self.assertEqual(out, printout)
            self.assert_losses(ours, theirs)
        self.assertIn("image_size", self.recipe(ours, 1, "--image-size", 14, code=2)[1])

    def test_three_virtual_workers(self):
        theirs, ours = self.folder("three-ranks"), self.folder("three-virtual-workers")
        printout = python(theirs, self.data, 1, BATCH, SAVE_EVERY, ranks=3)
        out, _ = self.recipe(ours, 2, "--virtual-workers", 3, "--epochs", 1)
        self.assertEqual(out, printout)
        self.assert_losses(ours, theirs)

    def test_killed_in_mid_epoch_and_while_the_file_is_written(self):
        """Apart: a second kill may find the first one's rank not replaced yet, and then no rank 1 to meet."""
        for kill in ("kill rank=1 txn=140 phase=backward", "kill rank=0 txn=104 phase=snapshot"):
            folder = self.folder("killed-" + kill.split("=")[-1])
            out, _ = self.recipe(folder, 2, launcher=["--inject", kill])
            self.assert_incidents(folder, 1)
            self.assertEqual(out, self.printout)
            self.assertEqual(self.file_of(folder), self.file)

    def test_workers_of_its_own_and_one_killed(self):
        folder = self.folder("spawned")
        out, _ = run(folder, RECIPE, *self.settings("--spawn", 2), LOCKSTEP_LAUNCHER=LOCKSTEP, PET_INJECT="kill rank=1 txn=140 phase=backward")
        self.assert_incidents(folder, 1)
        self.assert_printed(out)
        self.assertEqual(self.file_of(folder), self.file)

    def test_started_by_hand_and_killed(self):
        """The killed one comes again by the same command, in the second epoch of many."""
        folder, launched = self.folder("by-hand"), self.folder("launched")
        expected, _ = self.recipe(launched, 2, "--epochs", 12)
        with self.by_hand(folder, 0, "--epochs", 12) as zero, self.by_hand(folder, 1, "--epochs", 12) as one:
            zero.until_line("Epoch 1")
            one.kill()
            with self.by_hand(folder, 1, "--epochs", 12) as again:
                out = zero.finish()
                again.finish()  # also if the others were done before
            for rank in (1, 0):  # after the end each finds nothing to do, and waits for nobody
                with self.by_hand(folder, rank, "--epochs", 12) as late:
                    late.finish(timeout=20)
                    self.assertNotIn("error", late.text(late.err))
        self.assert_incidents(folder, 1)
        self.assertEqual(without_duration(out), expected)
        self.assertEqual(self.file_of(folder), self.file_of(launched))

    def test_resumes_by_hand_with_another_number_of_workers(self):
        folder = self.folder("resumed-by-hand")
        first, _ = self.recipe(folder, 1, "--max-steps", 150)
        with self.by_hand(folder, 0) as zero, self.by_hand(folder, 1) as one:
            second, _ = zero.finish(), one.finish()
        self.assert_printed("".join(line + "\n" for line in first.splitlines()[:-2]) + second)
        self.assert_losses(folder, self.theirs)

    def test_resumes_in_mid_epoch_with_another_number_of_workers(self):
        folder = self.folder("resumed")
        first, _ = self.recipe(folder, 1, "--max-steps", 150)
        *lines, cut, _ = first.splitlines()
        self.assertIn("The run ends here, at step 47 of 103 of epoch 2", cut)
        second, _ = self.recipe(folder, 2)
        self.assertEqual(lines + second.splitlines(), self.printout.splitlines())
        self.assert_losses(folder, self.theirs)

    def test_goes_on_from_a_file_of_pythons(self):
        theirs = self.folder("python-goes-on")
        self.python(theirs, epochs=1)
        ours = self.folder("imported")
        shutil.copytree(theirs / "output_model", ours / "output_model")
        out, err = self.recipe(ours, 1)
        self.assertEqual(out, self.python(theirs))
        self.assertTrue(out.count("Epoch ") == 1 and "Epoch 3\n" in out, out)
        self.assertIn("with weights of elsewhere; the optimizer's state begins anew", err)

    def test_a_last_epoch_without_a_file_is_done_too(self):
        out, _ = self.recipe(self.folder("unsaved"), 1, "--epochs", 2)
        self.assertEqual(out.splitlines()[-3:-1], ["Done!", "Done!"])
        self.assertEqual(out.count("Finished saving model"), 1)

    def test_a_file_of_another_program_is_refused(self):
        folder = self.folder("foreign")
        (folder / "output_model").mkdir()
        run(folder, PYTHON, "-c", f"import torch; torch.save({{'model_state_dict': {{}}}}, '{FILE}')")
        _, err = self.recipe(folder, 1, code=65)
        self.assertIn("has no epoch", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
