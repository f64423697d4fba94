#!/usr/bin/env python3
"""Tutorial 004's recipe beside the document's listing in stock PyTorch: equal losses, lines, weights and files, whoever is killed."""
import contextlib
import datetime
import json
import os
import pathlib
import shutil
import unittest

from beside_python import LOCKSTEP, PYTHON, RECIPE, BesidePython, Started, by_hand_place, has_module, python, run, without_duration
from pictures import png

# 35 samples for each of two: four steps of 8, three samples dropped; 32 to validate are whole batches, as the document's mean needs.
EPOCHS, STEPS = 2, 4
SMALL = ["--custom_data", "true", "--train_samples", 70, "--val_samples", 32, "--image_size", 8, "--batch_size", 8, "--epochs", EPOCHS]
SEED = ["--seed", 2019]
WARNING = "you are training on custom random dataset, validation accuracy may range from 0.4 to 0.6."
FIRST_LINE = "enable_gpu auto: training on the CPU, as this build has no GPU support"

HAS_PILLOW = has_module("PIL")

HASHES = """
import hashlib, sys, torch
for path in sys.argv[1:]:
    state, digest = torch.load(path, weights_only=True), hashlib.sha256()
    for name, tensor in state.items():
        digest.update(name.encode() + str(tensor.dtype).encode() + tensor.contiguous().numpy().tobytes())
    print(len(state), next(iter(state)), digest.hexdigest())
"""

# CIFAR-10 as it is published, with few pictures: 12 in each of five files, 20 to validate; all 256 values are in them.
WRITE_CIFAR = """
import os, pickle, numpy as np
os.makedirs("data/cifar-10-batches-py")
def write(name, value):
    with open("data/cifar-10-batches-py/" + name, "wb") as file: pickle.dump(value, file, protocol=2)
random = np.random.default_rng(4)
for name, count in [(f"data_batch_{i}", 12) for i in range(1, 6)] + [("test_batch", 20)]:
    data = random.integers(0, 256, (count, 3072), dtype=np.uint8)
    data[0, :256] = np.arange(256)
    names = [b"%d.png" % i for i in range(count)]
    write(name, {b"batch_label": name.encode(), b"labels": [int(x) for x in random.integers(0, 10, count)], b"data": data, b"filenames": names})
write("batches.meta", {b"num_cases_per_batch": 12, b"label_names": [b"class%d" % i for i in range(10)], b"num_vis": 3072})
"""

# The same as binary files.
WRITE_BINARY = """
import os, pickle
os.makedirs("binary/cifar-10-batches-bin")
for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
    with open("data/cifar-10-batches-py/" + name, "rb") as file: batch = pickle.load(file, encoding="bytes")
    with open(f"binary/cifar-10-batches-bin/{name}.bin", "wb") as file:
        for label, picture in zip(batch[b"labels"], batch[b"data"]): file.write(bytes([label]) + picture.tobytes())
with open("binary/cifar-10-batches-bin/batches.meta.txt", "w") as file: file.writelines(f"class{i}\\n" for i in range(10))
"""

# A tree of pictures by class, 50 to train and 20 to test, and what Python reads of the batches that are written from it: every picture
# of it once, with its class, in an order that mixes them.
WRITE_TREE = """
import os, numpy as np
from PIL import Image
random = np.random.default_rng(5)
for split, count in (("train", 5), ("test", 2)):
    for name in "abcdefghij":
        os.makedirs(f"tree/{split}/{name}")
        for i in range(count): Image.fromarray(random.integers(0, 256, (32, 32, 3), np.uint8)).save(f"tree/{split}/{name}/{i}.jpg")
"""
READ_BATCHES = """
import pickle, numpy as np
from PIL import Image
def load(name):
    with open("data/cifar-10-batches-py/" + name, "rb") as file: return pickle.load(file, encoding="bytes")
classes = [name.decode() for name in load("batches.meta")[b"label_names"]]
for split, files, count in (("train", [f"data_batch_{i}" for i in range(1, 6)], 50), ("test", ["test_batch"], 20)):
    found = []
    for batch in map(load, files):
        assert batch[b"data"].shape == (count // len(files), 3072) and len(set(batch[b"labels"])) > 2
        for label, data, name in zip(batch[b"labels"], batch[b"data"], batch[b"filenames"]):
            found.append(f"tree/{split}/{classes[label]}/{name.decode()}")
            assert (data.reshape(3, 32, 32).transpose(1, 2, 0) == np.array(Image.open(found[-1]))).all()
    assert len(set(found)) == count, found
"""


def peer(folder, ranks, options):
    """The last line: the weights' hash."""
    return python(folder, *options, ranks=ranks).splitlines()[-1]


def recipe(folder, workers, options, launcher=(), virtual=2):
    """Standard output's lines without the time it took, and standard error. No workers: without the launcher."""
    program = [RECIPE, "--output_dir", "output_dir", *options]
    if workers:
        program = [LOCKSTEP, "run", "--nproc-per-node", workers, *launcher, *program, "--virtual-workers", virtual]
    out, err = run(folder, *program)
    return without_duration(out).splitlines(), err


def hashes_of(folder, *names):
    return run(folder, PYTHON, "-c", HASHES, *names)[0].splitlines()


def metrics(folder):
    """{step: record} of the steps, [record] of the epochs' validations."""
    records = [json.loads(line) for line in (folder / "output_dir/run/metrics.jsonl").read_text().splitlines()]
    return [r for r in records if "loss" in r], [r for r in records if "valid_loss" in r]


def by_hand(folder, rank, options):
    """One rank of two, started by its own command."""
    return Started(folder, RECIPE, "--output_dir", "output_dir", "--init_method", f"tcp://{by_hand_place()}", "--world_size", 2, "--rank", rank,
                   "--init-timeout", 60, *options)


def manifest(folder):
    return json.loads((folder / "output_dir/run/manifest.json").read_text())


class CifarCluster(BesidePython):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.theirs, cls.ours = cls.folder("theirs"), cls.folder("ours")
        cls.weights = peer(cls.theirs, 2, SMALL + SEED)
        cls.out, cls.err = recipe(cls.ours, 2, SMALL + SEED)

    def tearDown(self):
        for folder in pathlib.Path(self.scratch.name).iterdir():  # each has hundreds of megabytes
            if folder not in (self.theirs, self.ours):
                shutil.rmtree(folder)

    def check_losses(self, folder, theirs, ranks, batch):
        """Each step's and each validation's, to the last bit."""
        said = [json.loads((theirs / f"steps_{rank}.json").read_text()) for rank in range(ranks)]
        steps, ends = metrics(folder)
        self.assertEqual([float.fromhex(r["loss_hex"]) for r in steps], said[0]["losses"])
        means = [sum(loss * batch for loss in losses) / (ranks * batch) for losses in zip(*(s["losses"] for s in said))]
        self.assertEqual([r["loss_mean"] for r in steps], means)
        self.assertEqual([r["valid_loss"] for r in ends], said[0]["exact"])

    def test_three_virtual_workers(self):
        theirs, ours, options = self.folder("theirs-3"), self.folder("ours-3"), [*SMALL, *SEED, "--epochs", 1]
        weights = peer(theirs, 3, options)
        out, _ = recipe(ours, 2, options, virtual=3)
        self.assertEqual(out[-1], weights)
        self.check_losses(ours, theirs, 3, 8)

    def test_losses_lines_and_weights(self):
        self.check_losses(self.ours, self.theirs, 2, 8)
        self.assertEqual(len(metrics(self.ours)[0]), EPOCHS * STEPS)
        ranks = [(self.theirs / f"rank_{rank}.txt").read_text().splitlines() for rank in (0, 1)]
        self.assertNotEqual(ranks[0][0], ranks[1][0], "each rank has a loss of its own")
        expected = [FIRST_LINE]
        for at in range(0, len(ranks[0]), 3):  # train, val, and the empty line that Python's print leaves
            expected += [rank[at] for rank in ranks] + [line for rank in ranks for line in rank[at + 1:at + 3]]
        self.assertEqual(self.out, expected + [self.weights])
        self.assertIn("WARNING:root:" + WARNING, self.err)
        self.assertEqual(manifest(self.ours)["drop_last"], "yes")
        self.assertTrue(manifest(self.ours)["optimizer_0"].startswith("Adam lr=0.02 "), "0.01 for each of two")

    def test_files_with_and_without_the_prefix(self):
        names = [f"output_dir/epoch_{n}.pth" for n in range(1, EPOCHS + 1)]
        self.assertEqual(hashes_of(self.ours, *names), hashes_of(self.theirs, *names))
        self.assertIn(" module.conv1.0.weight ", hashes_of(self.ours, names[0])[0])
        # From Python's file of epoch 1, with nothing left to train: its weights are the run's.
        given = [*SMALL, *SEED, "--epochs", 1, "--weights", self.theirs / names[0]]
        first, _ = recipe(self.folder("with"), 1, given)
        # And on from there, whichever kind of names the file has.
        folder = self.folder("bare")
        out, _ = recipe(folder, 1, [*SMALL, *SEED, "--weights", self.theirs / names[0], "--module_prefix", "false"])
        self.assertIn("train | epoch: 2 |", out[1])
        self.assertIn(" conv1.0.weight ", hashes_of(folder, names[1])[0])
        bare, _ = recipe(self.folder("from-bare"), 1, [*SMALL, *SEED, "--weights", folder / names[1]])
        self.assertEqual(bare[-1], out[-1])
        self.assertNotEqual(first[-1], out[-1])

    def test_channels_last(self):
        options = [*SMALL, *SEED, "--epochs", 1, "--memory_format", "channels_last"]
        theirs, one, two = self.folder("theirs-last"), self.folder("last-1"), self.folder("last-2")
        weights = peer(theirs, 2, options)
        out, _ = recipe(one, 1, options)
        self.assertEqual(out[-1], weights)
        self.check_losses(one, theirs, 2, 8)
        killed, err = recipe(two, 2, options, ["--inject", "kill rank=1 txn=2 phase=backward"])
        self.assertIn("replacement is started", err)
        self.assertEqual(killed, out)
        self.assertIn("strides", manifest(one))

    def test_killed_in_mid_epoch(self):
        out, err = recipe(self.folder("killed"), 2, SMALL + SEED, ["--inject", "kill rank=1 txn=2 phase=backward"])
        self.assertIn("replacement is started", err)
        self.assertEqual(out, self.out)

    def test_resumes_in_mid_epoch_with_another_number_of_workers_and_the_seed_that_it_had(self):
        folder = self.folder("resumed")
        recipe(folder, 1, [*SMALL, *SEED, "--max-steps", 2])
        out, err = recipe(folder, 2, SMALL)
        self.assertIn("resuming from", err)
        self.assertEqual(out, self.out)
        self.assertEqual(manifest(folder)["model_seed"], "2019")

    def test_cifar_10_alone_from_this_years_seed(self):
        folder = self.folder("cifar")
        run(folder, PYTHON, "-c", WRITE_CIFAR)
        years = {datetime.datetime.now().year}
        out, err = recipe(folder, 0, ["--data_url", "data", "--batch_size", 16, "--epochs", 1, "--init_method", "", "--world_size", 1,
                                      "--rank", 0, "--job_name", "x", "--val-samples", 3])
        years.add(datetime.datetime.now().year)
        self.assertIn("WARNING:root:unknown arguments, left aside: --job_name x", err)
        self.assertIn("--val-samples are of the random data (--custom_data true), left aside", err)
        self.assertNotIn("custom random", err)
        seed = int(manifest(folder)["model_seed"])
        self.assertIn(seed, years)
        weights = peer(folder, 1, ["--data_url", "data", "--batch_size", 16, "--epochs", 1, "--output_dir", "theirs", "--seed", seed])
        self.assertEqual(out[-1], weights)
        self.check_losses(folder, folder, 1, 16)  # 20 to validate: the last batch is short
        run(folder, PYTHON, "-c", WRITE_BINARY)
        shutil.rmtree(folder / "output_dir")
        binary, _ = recipe(folder, 0, ["--data_url", "binary", "--batch_size", 16, "--epochs", 1, "--seed", seed])
        self.assertEqual(binary, out)

    def test_cifar_10_from_a_tree_of_its_pictures(self):
        if not HAS_PILLOW:
            self.skipTest(f"{PYTHON} has no Pillow")
        folder, script = self.folder("tree"), pathlib.Path(__file__).parents[2] / "recipes/cifar_data.py"
        run(folder, PYTHON, "-c", WRITE_TREE)
        run(folder, PYTHON, script, "batches", "tree", "data")
        run(folder, PYTHON, "-c", READ_BATCHES)
        shown, _ = run(folder, LOCKSTEP, "data", "show", "data")
        self.assertRegex(shown, r"train: 50 pictures in 10 classes\n  a +5\n")
        run(folder, PYTHON, script, "batches", "tree", "few", "--count", 2)
        self.assertIn("test: 2 pictures", run(folder, LOCKSTEP, "data", "show", "few")[0])
        self.assertIn("is there already", run(folder, PYTHON, script, "batches", "tree", "data", code=1)[1])
        run(folder, PYTHON, script, "folders", "tree", "by_class", "--classes", "b,j", "Train=train:3", "Test=test:2")
        self.assertEqual(sorted(str(path.relative_to(folder / "by_class")) for path in (folder / "by_class").rglob("*.jpg")),
                         [f"{split}/{name}/{i}.jpg" for split, n in (("Test", 2), ("Train", 3)) for name in "bj" for i in range(n)])
        self.assertIn("has 5 pictures, not 6", run(folder, PYTHON, script, "folders", "tree", "x", "--classes", "b", "x=train:6", code=1)[1])

    def test_pictures_by_class_in_folders(self):
        folder = self.folder("folders")
        for split, count in (("train", 6), ("val", 4)):
            for label, name in enumerate(("fox", "owl", "yak")):
                (folder / "data" / split / name).mkdir(parents=True)
                for i in range(count):
                    colour = [40 * i, 100, 200 - 90 * label]
                    (folder / "data" / split / name / f"{i}.png").write_bytes(png(20 + i, 30, bytes(colour) * (20 + i) * 30))
        given = ["--data_url", "data", "--image_size", 16, "--batch_size", 4, "--epochs", 1]
        out, _ = recipe(folder, 2, given)
        self.assertTrue(out[1].startswith("train | epoch: 1 | loss: "), out)
        self.assertEqual(metrics(folder)[1][0]["valid_samples"], 12)
        shutil.rmtree(folder / "data/val/yak")
        self.assertIn("has 3 classes and 'data/val' 2: 'data/val' has no class 'yak'", run(folder, RECIPE, "--output_dir", "other", *given, code=65)[1])

    def test_each_of_many_virtual_workers_has_its_lines(self):
        out, _ = recipe(self.folder("many"), 1, [*SMALL, *SEED, "--train_samples", 80, "--batch_size", 2, "--epochs", 1], virtual=40)
        self.assertEqual([line.split(" | ")[0] for line in out if " | epoch: 1 | loss: " in line], ["train"] * 40 + ["val"] * 40)

    def test_started_by_hand_and_killed(self):
        """The document's own start: one command for each rank. The killed one comes again by the same command."""
        launched, folder = self.folder("launched"), self.folder("by_hand")
        options = [*SMALL, *SEED, "--epochs", 5]
        expected, _ = recipe(launched, 2, options)
        with contextlib.ExitStack() as stack:
            ranks = [stack.enter_context(by_hand(folder, rank, options)) for rank in (1, 0)][::-1]
            ranks[0].until_line("train | epoch: 1 ")
            # Without --rank it would be rank 0, which is there.
            _, err = run(folder, RECIPE, "--output_dir", "output_dir", "--init_method", f"tcp://{by_hand_place()}", "--world_size", 2, *options,
                         code=2, LOCKSTEP_LAUNCHER=LOCKSTEP)
            self.assertIn("which is alive", err)
            ranks[1].kill()
            with by_hand(folder, 1, options) as again:
                out = ranks[0].finish()
                again.finish()  # also if the others were done before
        self.assertEqual(without_duration(out).splitlines(), expected)
        self.assertEqual(manifest(folder)["virtual_workers"], "2")
        self.assertEqual(metrics(folder)[0], metrics(launched)[0])

    def test_resumes_by_hand_with_another_number_of_workers(self):
        folder = self.folder("resumed-by-hand")
        recipe(folder, 1, [*SMALL, *SEED, "--max-steps", 2])
        with by_hand(folder, 0, SMALL) as zero, by_hand(folder, 1, SMALL) as one:
            out, _ = zero.finish(), one.finish()
        self.assertEqual(without_duration(out).splitlines(), self.out)

    def test_what_cannot_be_is_said(self):
        folder = self.folder("refused")
        for options, told, code in (
                (["--enable_gpu", "true"], "--enable_gpu is 'true', but this build has no GPU support", 2),
                (["--data_url", "s3://bucket/data"], "--data-url is 's3://bucket/data': s3:// cannot be read or written yet", 2),
                (["--output_dir", "obs://bucket/x"], "--output-dir is 'obs://bucket/x': obs:// cannot be read or written yet", 2),
                (["--world_size", 2], "give all ranks one address (--init_method tcp://127.0.0.1:29500, or MASTER_ADDR", 2),
                (["--init_method", "", "--world_size", 2], "by the launcher ('lockstep run", 2),
                (["--init_method", "tcp://192.0.2.1:29500", "--world_size", 2], "has the host '192.0.2.1', which is another machine", 2),
                (["--init_method", "tcp://127.0.0.1:29500", "--world_size", 2, "--rank", 2], "the rank is 2", 2),
                (["--weights", "last.pth", "--custom_data", "true", "--train_samples", 32, "--batch_size", 8], "must be epoch_N.pth", 2),
                (["--custom_data", "true", "--train_samples", 1 << 62], "GB of memory; at most 64", 2),
                (["--data_url", "nowhere"], "the data url is http://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", 65),
                (["--init_method", f"tcp://{by_hand_place()}", "--world_size", 2, "--init-timeout", 1, *SMALL], "of 2 nobody has come as rank 1", 69)):
            with self.subTest(options[0]):
                self.assertIn(told, run(folder, RECIPE, "--output_dir", "out", *options, code=code)[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
