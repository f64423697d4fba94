#!/usr/bin/env python3
"""Tutorial 000's classifier beside the document's listing in stock PyTorch and torchvision: equal losses, lines, weights and files, whoever is killed.

Environment: beside_python.py. Without torchvision the comparisons are left out, and say so.
"""
import hashlib
import io
import pathlib
import re
import shutil
import sys
import tarfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import beside_python  # noqa: E402
from beside_python import PYTHON, BesidePython, run  # noqa: E402
from pictures import drawn  # noqa: E402

# 23 for each epoch: 12 for each of two, three steps of 4; 10 to validate: the last batch is short.
EPOCHS, BATCH, SIZE = 3, 4, 32
SETTINGS = ["--epochs", EPOCHS, "--batch-size", BATCH, "--image-size", SIZE]
CLASSES = ("C0", "C2", "C4")
WEIGHTS = """
import torch, torchvision
torch.manual_seed(7)
torch.save(torchvision.models.resnet34().state_dict(), "resnet34.pth")
"""
# Of each file: what stands beside the weights, their hash, and what is not as the first argument has it.
FILES = """
import hashlib, sys, torch
before = torch.load(sys.argv[1], weights_only=True)
for path in sys.argv[2:]:
    saved, digest = torch.load(path, weights_only=True), hashlib.sha256()
    state = saved.pop("model_state_dict")
    for name, tensor in state.items():
        digest.update(name.encode() + str(tensor.dtype).encode() + tensor.contiguous().numpy().tobytes())
    print(saved, digest.hexdigest(), [name for name in state if name not in before or not torch.equal(state[name], before[name])])
"""


def write_pictures(root):
    for split, count in (("Train", 23), ("Validation", 10)):
        for i in range(count):
            folder = root / split / CLASSES[i % 3]
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{i}.png").write_bytes(drawn(f"{split} {i}"))


def file_of(folder):
    return hashlib.sha256((folder / "output_model/best_model.pt").read_bytes()).hexdigest()


def without_places(out, folder):
    return re.sub(r"Time: \d+s", "Time: 0s", out).replace(str(folder), "HERE")


class Classifier(BesidePython):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.folder("data")
        write_pictures(cls.data)
        cls.theirs, cls.weights = cls.folder("theirs"), []
        if beside_python.has_module("torchvision"):
            run(cls.data, PYTHON, "-W", "ignore", "-c", WEIGHTS)
            weights = cls.data / "resnet34.pth"
            cls.weights = ["--weights", weights]
            beside_python.python(cls.theirs, cls.data, weights, BATCH, SIZE, f"frozen:frozen:{EPOCHS}", "trained:trained:1",
                                 "resumed:frozen:1", f"resumed:frozen:{EPOCHS}")
        cls.frozen = [*SETTINGS, *cls.weights, "--backbone", "frozen"]
        cls.ours = cls.folder("ours")
        cls.out, cls.err = cls.recipe(cls.ours, 2, cls.frozen)

    def beside(self, job):
        """The peer's folder of that job and what it printed there."""
        if not self.weights:
            self.skipTest(f"{PYTHON} has no torchvision")
        folder = self.theirs / job
        return folder, without_places((folder / "out.txt").read_text(), folder)

    def tearDown(self):
        for folder in pathlib.Path(self.scratch.name).iterdir():  # each has hundreds of megabytes
            if folder not in (self.data, self.theirs, self.ours):
                shutil.rmtree(folder)

    @classmethod
    def recipe(cls, folder, workers, options, launcher=(), code=0, data=None):
        out, err = beside_python.recipe(folder, workers, "--data", data or cls.data, "--virtual-workers", 2, *options, launcher=launcher, code=code)
        return without_places(out, folder), err

    def test_losses_lines_file_and_weights(self):
        theirs, out = self.beside("frozen")
        self.assertEqual(self.out, out)
        self.assert_losses(self.ours, theirs)
        ours, same, *rest = run(self.data, PYTHON, "-c", FILES, "resnet34.pth", *(f / "output_model/best_model.pt" for f in (self.ours, theirs)))[0].splitlines()
        self.assertEqual((ours, rest), (same, []))
        self.assertTrue(ours.endswith("['fc.0.weight', 'fc.0.bias', 'fc.2.weight', 'fc.2.bias']"), "frozen is frozen: " + ours)

    def test_trained_as_a_whole(self):
        theirs, expected = self.beside("trained")
        ours = self.folder("trained")
        out, _ = self.recipe(ours, 2, [*SETTINGS, *self.weights, "--backbone", "trained", "--epochs", 1])
        self.assertEqual(out, expected)
        self.assert_losses(ours, theirs)

    def test_goes_on_from_a_file_of_pythons(self):
        theirs, expected = self.beside("resumed")
        ours = self.folder("from-python")
        (ours / "output_model").mkdir()
        shutil.copy(theirs / "first.pt", ours / "output_model/best_model.pt")
        out, err = self.recipe(ours, 2, self.frozen)
        self.assertEqual(out, expected)
        self.assertIn("resuming training from epoch 1\n", out)
        self.assertRegex(err, "weights of elsewhere; the optimizer's state begins anew, and the schedule's; the best so far is 0")

    def test_killed_in_mid_epoch(self):
        folder = self.folder("killed")
        out, err = self.recipe(folder, 2, self.frozen, ["--inject", "kill rank=1 txn=6 phase=backward"])
        self.assertIn("replacement is started", err)
        self.assertEqual(out, self.out)
        self.assertEqual(file_of(folder), file_of(self.ours))

    def test_killed_where_each_worker_runs_main(self):
        """What stands before init() is printed once all the same."""
        for victim in (0, 1):
            folder = self.folder(f"executed-{victim}")
            launcher = ["--start-method", "exec", "--inject", f"kill rank={victim} txn=6 phase=backward"]
            out, err = self.recipe(folder, 2, self.frozen, launcher)
            self.assertIn("replacement is started", err)
            self.assertEqual(out, self.out)

    def test_resumes_in_mid_epoch_with_another_number_of_workers(self):
        folder = self.folder("resumed")
        first, _ = self.recipe(folder, 1, [*self.frozen, "--max-steps", 4])
        self.assertIn("(Epoch 1/3)", first)
        out, _ = self.recipe(folder, 2, self.frozen)
        sizes, _, rest = self.out.partition("\n")
        self.assertTrue(out.startswith(sizes + "\nresuming training from epoch 1\n"), out)
        self.assertEqual(out.split("epoch 1\n", 1)[1], rest[rest.index("\n", rest.index("Current best")) + 2:])
        self.assertEqual(file_of(folder), file_of(self.ours))

    def test_an_archive_is_unpacked_once(self):
        folder = self.folder("archive")
        with tarfile.open(folder / "data.tar.gz", "w:gz") as archive:
            for split in ("Train", "Validation"):
                archive.add(self.data / split, f"Dataset_2/{split}")
        for _ in range(2):
            out, err = self.recipe(folder, 2, [*self.frozen, "--stage", "stage", "--max-steps", 1], data="data.tar.gz")
        self.assertIn("Train set size: 23, Validation set size: 10\n", out)
        self.assertNotIn("unpacking", err)
        self.assertEqual([path.name for path in (folder / "stage").iterdir()], ["data"])
        self.assertIn("give --stage DIR", self.refused(folder, "data.tar.gz", 2))

    def refused(self, folder, data, code, *options):
        return run(folder, beside_python.RECIPE, "--data", data, *SETTINGS, *options, code=code)[1]

    def test_bad_data_is_named(self):
        folder = self.folder("bad")
        with tarfile.open(folder / "climbs.tar", "w") as archive:
            archive.addfile(tarfile.TarInfo("../climbed"), io.BytesIO())
        self.assertIn("'../climbed' climbs out of its folder", self.refused(folder, "climbs.tar", 65, "--stage", "stage"))
        self.assertEqual(list((folder / "stage").iterdir()), [])
        self.assertIn("has no folders Train and Validation", self.refused(folder, folder, 65))
        data = folder / "copy"
        shutil.copytree(self.data, data, ignore=lambda *_: ["resnet34.pth"])
        (data / "Train/C9").mkdir()
        self.assertIn("class 'C9' has no picture", self.refused(folder, data, 65))
        shutil.copy(data / "Train/C0/0.png", data / "Train/C9")
        self.assertIn("has 4 classes and Validation 3: Validation has no class 'C9'", self.refused(folder, data, 65))
        (data / "Validation/C9").mkdir()
        shutil.copy(data / "Train/C0/0.png", data / "Validation/C9")
        _, err = run(folder, beside_python.RECIPE, "--data", data, *SETTINGS, "--checkpoint-file", self.ours / "output_model/best_model.pt", code=65)
        self.assertRegex(err, r"best_model.pt': .*not of this model.*fc\.2")

    def test_a_damaged_picture_is_left_out_and_a_test_set_evaluated(self):
        folder = self.folder("damaged")
        data = folder / "copy"
        shutil.copytree(self.data, data, ignore=lambda *_: ["resnet34.pth"])
        for split in ("Train", "Validation"):
            picture = data / split / "C2/1.png"
            picture.write_bytes(picture.read_bytes()[:200])
        shutil.copytree(data / "Validation", data / "Test")
        outs = []
        (data / "Train/C0/notes.txt").write_text("no picture")
        (data / "Train/C0/._0.png").write_bytes(b"\0\5\26\7")
        for name, workers, launcher in (("1", 1, ()), ("2", 2, ()), ("killed", 2, ("--inject", "kill rank=1 txn=0 phase=backward"))):
            out, err = self.recipe(self.folder(f"damaged-{name}"), workers, [*self.frozen, "--epochs", 1], data=data, launcher=launcher)
            outs.append(out)
            self.assertEqual(err.count("not in the set by their names: 1 ._*, 1 .txt"), 1, err)
            for split in ("Train", "Validation"):
                self.assertEqual(len(re.findall(f"left out: .*{split}/C2/1.png", err)), 1, err)
            self.assertEqual(err.count("left out as damaged in the last epoch: 1 sample in training, where the next ones stood in; "
                                       "1 sample in the evaluation"), 1, err)
        self.assertEqual(outs, [outs[0]] * 3)
        self.assertNotIn(outs[0].splitlines()[-1], self.out)
        found = re.search(r"Best model \(val loss: (\S+), val accuracy: (\S+), test loss: (\S+), test accuracy: (\S+)\) has", out)
        self.assertIsNotNone(found, out)
        self.assertEqual(found.groups()[:2], found.groups()[2:])


if __name__ == "__main__":
    unittest.main(verbosity=2)
