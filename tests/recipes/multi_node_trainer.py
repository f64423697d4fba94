#!/usr/bin/env python3
"""Tutorial 001's recipe beside the original's listing in stock PyTorch and torchvision: equal losses, lines, weights and files; the time limit replayed.

Environment: beside_python.py. Without torchvision the comparisons are left out, and say so.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import unittest

import beside_python
from beside_python import LOCKSTEP, PYTHON, RECIPE, BesidePython, Started, by_hand_place, run, without_duration
from pictures import drawn

# 29 photographs: 24 to train, 12 for each of two, three steps of 4; 5 to validate: the last batch is short.
EPOCHS, STEPS, BATCH, SIZE, WIDTH = 3, 3, 4, 32, 16
CLASSES = ("n01", "n02", "n03")
SETTINGS = ["--batch_size", BATCH, "--image_size", SIZE, "--classifier_width", WIDTH]
# What stands in each file, times apart: the model's hash, the rest as it is; and that the times are those of the epochs.
FILES = """
import hashlib, sys, torch
for path in sys.argv[1:]:
    saved, digest = torch.load(path, weights_only=True), hashlib.sha256()
    for name, tensor in saved.pop("MODEL_STATE", {}).items():
        digest.update(name.encode() + str(tensor.dtype).encode() + tensor.contiguous().numpy().tobytes())
    times, total = saved.pop("EPOCH_TIMES"), saved.pop("RUN_TIME")
    assert sum(times) <= total + 1e-6 and all(time >= 0 for time in times) and len(times) == saved["EPOCHS_RUN"], (times, total)
    print(saved, digest.hexdigest())
"""
METRICS = "import json, sys, torch; print(json.dumps(torch.load(sys.argv[1], weights_only=True)))"
SCRIPTS = beside_python.HERE.parent.parent / "recipes/time_budget/scripts"
PROGRAMS = f"{pathlib.Path(LOCKSTEP).parent}:{pathlib.Path(RECIPE).parent}"
HAS_TORCHVISION = beside_python.has_module("torchvision")


def write_pictures(root, count=29):
    for i in range(count):
        folder = root / CLASSES[i % 3]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i}.png").write_bytes(drawn(f"photograph {i}"))


def without_times(text):
    text = re.sub(r"Train Time: .* minutes", "Train Time: 0.0 hours & 0.00 minutes", text)
    return re.sub(r"Total train time: .* seconds", "Total train time: 0.00 seconds", text)


def blocks(path):
    """A rank's lines: each epoch's first, then what follows its end."""
    return re.split(r"(?=\n\[GPU|Training snapshot|\nCurrent)", path.read_text())


def expected_lines(folder):
    """Of two ranks, each block by both in turn; that of the file by one."""
    lines = ""
    ranks = [blocks(folder / f"rank_{rank}.txt") for rank in (0, 1)]
    others = iter(ranks[1])
    for block in ranks[0]:
        lines += block + ("" if block.startswith("Training snapshot") else next(others))
    return lines


def saves(folder):
    return [folder / "training_saves" / name for name in ("model_snapshot.pt", "model_snapshot_metrics.pt")]


def run_dir(folder):
    return folder / "training_saves/model_snapshot-run"


beside_python.run_dir = run_dir


class NodeScript(Started):
    """The document's command of one of two workers: scripts/multi_node_train.sh."""

    def __init__(self, folder, worker, options):
        super().__init__(folder, "bash", SCRIPTS / "multi_node_train.sh", 0, worker, 2, "model_snapshot", BATCH, "--data", *options,
                         PROGRAMS=PROGRAMS, MASTER_PORT=by_hand_place().split(":")[1])

    def trainer(self):
        """The process that bash has started beside tee."""
        return next((pid for pid in self.children() if pathlib.Path(f"/proc/{pid}/comm").read_text() == "multi_node_trai\n"), None)


class TimeBudget(BesidePython):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.folder("data")
        write_pictures(cls.data)
        cls.theirs, cls.ours = cls.folder("theirs"), cls.folder("ours")
        if HAS_TORCHVISION:
            cls.weights = cls.peer(cls.theirs)
        cls.out, cls.err = cls.recipe(cls.ours, 2)

    @classmethod
    def peer(cls, folder, *more, weights="", epochs=EPOCHS):
        """The last line: the weights' hash."""
        return beside_python.python(folder, cls.data, weights, epochs, BATCH, SIZE, WIDTH, *more).splitlines()[-1]

    @classmethod
    def recipe(cls, folder, workers, *options, launcher=(), code=0):
        """No workers: without the launcher."""
        options = ["--data", cls.data, "--virtual-workers", 2, "--train_time", 0, "--epochs", EPOCHS, *SETTINGS, *options]
        if workers is None:
            out, err = run(folder, RECIPE, *options, code=code)
            return without_times(without_duration(out)), err
        out, err = beside_python.recipe(folder, workers, *options, launcher=launcher, code=code)
        return without_times(out), err

    def tearDown(self):
        for folder in pathlib.Path(self.scratch.name).iterdir():  # each has hundreds of megabytes
            if folder not in (self.data, self.theirs, self.ours):
                shutil.rmtree(folder)

    def beside(self):
        if not HAS_TORCHVISION:
            self.skipTest(f"{PYTHON} has no torchvision")

    def assert_files(self, ours, theirs):
        """Equal, but for the times."""
        content = run(self.data, PYTHON, "-c", FILES, *saves(ours), *saves(theirs))[0].splitlines()
        self.assertEqual(content[:2], content[2:])

    def metrics(self, folder):
        return json.loads(run(folder, PYTHON, "-c", METRICS, saves(folder)[1])[0])

    def test_losses_lines_files_and_weights(self):
        self.beside()
        self.assert_losses(self.ours, self.theirs)
        self.assertEqual(len(beside_python.steps(self.ours)), EPOCHS * STEPS)
        self.assertEqual(self.out, expected_lines(self.theirs) + self.weights + "\n")
        self.assert_files(self.ours, self.theirs)

    def test_from_weights_of_torchvisions(self):
        self.beside()
        weights, theirs, ours = self.folder("weights") / "vgg19.pth", self.folder("theirs-weights"), self.folder("ours-weights")
        run(self.data, PYTHON, "-c", "import sys, torch, torchvision; torch.manual_seed(5); "
            "torch.save(torchvision.models.vgg19(init_weights=False).state_dict(), sys.argv[1])", weights)
        expected = self.peer(theirs, weights=weights, epochs=1)
        out, err = self.recipe(ours, 2, "--weights", weights, "--epochs", 1)
        self.assertEqual(out.splitlines()[-1], expected)
        self.assert_losses(ours, theirs)
        self.assertNotIn("random values", err)

    def test_killed_in_mid_epoch(self):
        folder = self.folder("killed")
        out, err = self.recipe(folder, 2, launcher=["--inject", "kill rank=1 txn=6 phase=backward"])
        self.assertIn("replacement is started", err)
        self.assertEqual(out, self.out)
        self.assert_files(folder, self.ours)

    def test_resumes_in_mid_epoch_with_another_number_of_workers(self):
        folder = self.folder("resumed")
        self.recipe(folder, 1, "--max-steps", 4)
        self.assertEqual(self.metrics(folder)["EPOCHS_RUN"], 1)
        out, err = self.recipe(folder, 2)
        self.assertIn("resuming from", err)
        self.assertTrue(out.startswith("Learning Rate = 0.00014142\n" * 2 + "Loading snapshot\nResuming training from save at Epoch 1\n"), out)
        self.assertEqual(out.splitlines()[-1], self.out.splitlines()[-1])
        self.assert_files(folder, self.ours)

    def stopped(self, folder, workers=2, launcher=()):
        """A run whose time is up at its first look; how many steps it made, and what it said."""
        out, err = self.recipe(folder, workers, "--train_time", 1e-6, launcher=launcher)
        stop = json.loads((run_dir(folder) / "stop.json").read_text())
        self.assertEqual(json.loads((run_dir(folder) / "result.json").read_text())["steps"], stop["stop_after_step"], err)
        self.assertIn("Training completed -> Total train time", out)
        return stop["stop_after_step"], out, err

    def assert_replayed(self, folder, steps, out):
        """Those steps without a limit have the same weights; and the file counts whole epochs."""
        replayed, _ = self.recipe(self.folder(f"again-{folder.name}"), 1, "--max-steps", steps)
        self.assertEqual(replayed.splitlines()[-1], out.splitlines()[-1])
        saved = self.metrics(folder)
        self.assertEqual((saved["EPOCHS_RUN"], len(saved["EPOCH_TIMES"])), (steps // STEPS, steps // STEPS))
        self.assertEqual(len(saved["VALID_HISTORY"]), -(-steps // STEPS), "the broken epoch is evaluated")
        return saved

    def test_the_time_limit_is_replayed_and_lifted(self):
        folder = self.folder("stopped")
        kill = "kill rank=1 txn=0 phase=backward"  # time may be up after the first step
        steps, out, err = self.stopped(folder, launcher=["--inject", kill])
        self.assertIn("SIGKILL", err)
        saved = self.assert_replayed(folder, steps, out)
        _, err = self.recipe(folder, 1, "--train_time", 1e-6)
        self.assertIn("stopped by its time limit", err)
        # A longer limit goes on, and all is as though it had never stopped.
        out, _ = self.recipe(folder, 2)
        self.assertEqual(out.splitlines()[-1], self.out.splitlines()[-1])
        self.assertEqual(self.metrics(folder)["VALID_HISTORY"], self.metrics(self.ours)["VALID_HISTORY"])
        self.assertGreater(self.metrics(folder)["RUN_TIME"], saved["RUN_TIME"])
        self.assertFalse((run_dir(folder) / "stop.json").exists())

    def assert_log_has_lines(self, log, lines):
        """All of them in their order; what is on standard error stands in between."""
        lines = [line for line in lines if line]
        said = [line for line in without_times(without_duration(log.read_text())).splitlines() if line in lines]
        self.assertEqual(said, lines)

    def test_the_script_of_one_node_and_its_log(self):
        folder = self.folder("one-node")
        log = folder / "training_saves/model_snapshot.log"
        words = ["bash", SCRIPTS / "one_node_train.sh", 0, "model_snapshot", BATCH, "--data", self.data, "--virtual-workers", 2,
                 "--epochs", EPOCHS, *SETTINGS]
        first, _ = run(folder, *words, PROGRAMS=PROGRAMS, NPROC="2")
        self.assertEqual(log.read_text(), first)
        self.assertIn("lockstep: 2 workers;", first, "what is on standard error is in the log")
        self.assert_log_has_lines(log, self.out.splitlines())
        self.assert_files(folder, self.ours)
        second, _ = run(folder, *words, PROGRAMS=PROGRAMS)
        self.assertEqual(log.read_text(), first + second, "a restart adds to it")
        self.assertEqual(second.splitlines()[-1], self.out.splitlines()[-1])

    def test_the_scripts_of_two_nodes_and_a_kill(self):
        """One command for each worker. The killed one comes again by the same command."""
        folder = self.folder("two-nodes")
        options = [self.data, "--epochs", EPOCHS, *SETTINGS]
        with NodeScript(folder, 0, options) as zero, NodeScript(folder, 1, options) as one:
            zero.until_line("[GPU1] Epoch: 0 ")
            os.kill(one.trainer(), signal.SIGKILL)
            one.finish(128 + signal.SIGKILL)
            with NodeScript(folder, 1, options) as again:
                zero.finish()
                again.finish()
        self.assert_log_has_lines(folder / "training_saves/model_snapshot.log", self.out.splitlines())
        self.assertTrue((folder / "training_saves/model_snapshot.1.log").exists())
        self.assertEqual(len(list((run_dir(folder) / "incidents").glob("*.json"))), 1)
        self.assert_files(folder, self.ours)

    def test_resumes_by_hand_with_another_number_of_workers(self):
        folder = self.folder("resumed-by-hand")
        self.recipe(folder, 1, "--max-steps", 4)
        options = [self.data, "--epochs", EPOCHS, *SETTINGS]
        with NodeScript(folder, 0, options) as zero, NodeScript(folder, 1, options) as one:
            zero.finish()
            one.finish()
        self.assertIn("resuming from", (folder / "training_saves/model_snapshot.log").read_text())
        self.assertIn(self.out.splitlines()[-1], (folder / "training_saves/model_snapshot.log").read_text())
        self.assert_files(folder, self.ours)

    def test_the_time_limit_without_the_launcher(self):
        folder = self.folder("alone")
        steps, out, _ = self.stopped(folder, None)
        self.assert_replayed(folder, steps, out)

    def test_the_broken_epoch_beside_python(self):
        self.beside()
        ours, theirs = self.folder("broken"), self.folder("theirs-broken")
        steps, out, _ = self.stopped(ours)
        weights = self.peer(theirs, steps % STEPS, epochs=-(-steps // STEPS))
        self.assertEqual(out.splitlines()[-1], weights)
        self.assert_losses(ours, theirs)
        self.assert_files(ours, theirs)
        self.assertEqual(out, expected_lines(theirs) + weights + "\n")

    def test_goes_on_from_a_snapshot_of_pythons(self):
        self.beside()
        theirs, ours = self.folder("theirs-first"), self.folder("from-python")
        self.peer(theirs, epochs=1)
        (ours / "training_saves").mkdir()
        shutil.copy(saves(theirs)[0], saves(ours)[0])
        out, err = self.recipe(ours, 2)
        self.assertIn("Resuming training from save at Epoch 1\n", out)
        begun = [line for line in out.splitlines() if line.startswith("[GPU")]
        self.assertIn("Epoch: 1 ", begun[0])
        self.assertEqual(begun, [line for line in self.out.splitlines() if line.startswith("[GPU")][-len(begun):])
        self.assertIn("the optimizer's state begins anew", err)
        self.assertEqual(out.splitlines()[-1], self.out.splitlines()[-1], "plain SGD has no state")
        self.assert_files(ours, self.ours)

        odd = self.folder("odd")
        (odd / "training_saves").mkdir()
        for change, told in (("EPOCHS_RUN=5", "EPOCHS_RUN 5, and 1 EPOCH_TIMES"), ("EPOCH_TIMES=[float('nan')]", "has run nan s")):
            run(odd, PYTHON, "-c", f"import sys, torch; torch.save({{**torch.load(sys.argv[1], weights_only=True), **dict({change})}}, sys.argv[2])",
                saves(theirs)[0], saves(odd)[0])
            self.assertIn(told, self.recipe(odd, 1, code=65)[1])

    def test_evaluates_a_checkpoint_for_the_report(self):
        test = self.folder("test-set")
        write_pictures(test, 11)
        program = [RECIPE, "--data", test, *SETTINGS]
        checkpoint = sorted((run_dir(self.ours) / "checkpoints").glob("step-*"))[-1]
        out, _ = run(test, *program, "--evaluate", saves(self.ours)[0], "--json", "figures.json")
        self.assertRegex(out, r"^Test loss: \d\.\d{4}\nTop-1 accuracy: .* \(\d+/11\)\n  n01: .*/4\)\n  n02: .*/4\)\n  n03: .*/3\)\n$")
        figures = json.loads((test / "figures.json").read_text())["runs"][0]
        self.assertEqual(figures["name"], "model_snapshot")
        report = json.loads(run(test, LOCKSTEP, "report", "--json", saves(self.ours)[1], "figures.json")[0])["runs"]
        self.assertEqual([(r["name"], r["test_loss"], r["epochs_run"]) for r in report], [("model_snapshot", figures["test_loss"], EPOCHS)])
        for place in (checkpoint, run_dir(self.ours), run_dir(self.ours) / "checkpoints/best"):
            run(test, *program, "--evaluate", place, "--json", "of_run.json")
            report = json.loads(run(test, LOCKSTEP, "report", "--json", saves(self.ours)[1], "of_run.json")[0])["runs"]
            self.assertEqual([r["name"] for r in report], ["model_snapshot"], f"{place} is no run of its own")
        report = json.loads(run(test, LOCKSTEP, "report", "--json", run_dir(self.ours), "figures.json")[0])["runs"]
        self.assertEqual([(r["name"], r["test_loss"], len(r["validation"])) for r in report], [("model_snapshot", figures["test_loss"], EPOCHS)])
        for words, told in ((["--evaluate", ""], "--evaluate is empty"), (["--evaluate", checkpoint, "--json", "m.pt"], "ends with .json")):
            self.assertIn(told, run(test, *program, *words, code=2)[1])
        for key, more in (("image_size", ["--image-size", 48]), ("classifier_width", ["--classifier_width", 8])):
            for place in (checkpoint, saves(self.ours)[0]):
                self.assertIn(f"was trained with {key} ", run(test, *program, *more, "--evaluate", place, code=2)[1])
        (test / "n03").rename(test / "other")
        self.assertIn("was trained with classes n01/n02/n03, and n01/n02/other", run(test, *program, "--evaluate", run_dir(self.ours), code=2)[1])
        (test / "other").rename(test / "n03")
        alone = shutil.copy(saves(self.ours)[0], test / "alone.pt")
        _, err = run(test, *program[:3], "--evaluate", alone, "--classifier_width", 8, code=65)
        self.assertIn("classifier.0.weight", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
