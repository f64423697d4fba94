#!/usr/bin/env python3
"""lockstep checkpoint, report and data show, as users start them: through `lockstep`, over real runs; the guide's commands.

    runs.py [CLASS[.test] ...]    LOCKSTEP_PROGRAM, LOCKSTEP_CONVNET: the programs; LOCKSTEP_PYTHON: one with torch, for exports
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "fault"))
sys.dont_write_bytecode = True
import harness  # noqa: E402

USAGE, BAD_DATA = 2, 65
PROGRAM = pathlib.Path(harness.LOCKSTEP)


def run(*command, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, **more)


class Temporary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-inspect-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def refused(self, code, says, *command, **more):
        done = run(*command, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertRegex(done.stderr, says)
        self.assertEqual(done.stderr.count("error: "), 1, done.stderr)
        self.assertEqual(done.stdout, "")


class Program(Temporary):
    """The second program is found, and fits."""

    def test_missing(self):
        alone = shutil.copy(PROGRAM, self.folder)
        for words in (("checkpoint", "ls", "x"), ("report", "x"), ("data", "show", "x")):
            self.refused(USAGE, f"'lockstep {words[0]}' needs '{self.folder}/lockstep-inspect', which cannot be started: No such file",
                         alone, *words)

    def test_of_another_version(self):
        version = run(PROGRAM, "version").stdout.split()[1]
        self.refused(USAGE, f"'lockstep' is version 9.9.9, 'lockstep-inspect' beside it {version}: install both from one build",
                     PROGRAM.parent / "lockstep-inspect", "--for", "9.9.9", "report", "x")

    def test_is_found_beside_the_file_that_a_link_leads_to(self):
        link = self.folder / "lockstep"
        link.symlink_to(PROGRAM)
        self.assertEqual(run(link, "checkpoint", "help").returncode, 0)

    def test_exit_codes(self):
        self.refused(BAD_DATA, "'nowhere' does not exist", PROGRAM, "checkpoint", "show", "nowhere")
        self.refused(BAD_DATA, "is no run directory", PROGRAM, "report", self.folder)
        self.refused(BAD_DATA, "no data set that is known here", PROGRAM, "data", "show", self.folder)
        self.refused(USAGE, "did you mean 'show'", PROGRAM, "checkpoint", "shwo")
        self.refused(USAGE, "did you mean 'checkpoint'", PROGRAM, "chekpoint")
        self.refused(USAGE, r"usage: lockstep data get mnist\|cifar10\|cifar100 DIR, or lockstep data show", PROGRAM, "data", "shwo")
        for words in (("checkpoint", "--help"), ("report", "--help"), ("data", "show", "--help")):
            done = run(PROGRAM, *words)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.startswith("usage: lockstep " + words[0]))

    def test_output_that_nobody_takes_is_told(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([PROGRAM, "checkpoint", "help"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write to standard output: No space left", done.stderr)


class Runs(Temporary):
    """The guide's commands, over two runs on two workers."""

    def start(self):
        data = harness.write_idx(self.folder / "mnist", 500, 100)
        away = {name: str(self.folder) for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME")}
        path = f"{PROGRAM.parent}:{pathlib.Path(harness.CONVNET).parent}:{os.environ['PATH']}"
        self.env = {**os.environ, **away, "OMP_NUM_THREADS": "1", "PATH": path, "DATA": str(data)}
        done = run(HERE / "guide.sh", cwd=self.folder, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def json(self, *words, codes=(0, 1)):
        done = run(PROGRAM, *words, "--json", cwd=self.folder, env=self.env)
        self.assertIn(done.returncode, codes, done.stderr)
        return json.loads(done.stdout)

    def test_guide(self):
        out = self.start()
        self.checkpoints(out)
        self.exported()
        self.documented()
        self.reported(out)
        sheet = (self.folder / "sheet.html").read_text()
        self.assertEqual(sheet.count("<img "), 2 * 10 * 4)
        self.damaged()

    def documented(self):
        page = (HERE.parents[1] / "docs/guide/inspect.md").read_text()
        for field in self.json("status", "runs/a"):
            self.assertIn(f"`{field}`", page)

    def checkpoints(self, out):
        listed = self.json("checkpoint", "ls", "runs/a")["checkpoints"]
        self.assertTrue(listed and all(each["valid"] for each in listed))
        self.assertIn("last", listed[0]["pointers"])
        self.sha256 = self.json("checkpoint", "show", "runs/a")["parts"][0]["sha256"]
        self.assertEqual(self.sha256, re.findall(r"weights sha256 (\w+)", out)[0])
        self.assertRegex(out, r"\d+ tensors with equal bits, 0 others\n")
        differences = self.json("checkpoint", "diff", "runs/a", "runs/b")["differences"]
        self.assertTrue(any(each.get("max_abs_difference", 0) > 0 for each in differences), differences)

    def exported(self):
        python = os.environ.get("LOCKSTEP_PYTHON", "python3")
        if run(python, "-c", "import torch, numpy").returncode != 0:
            return  # the unit tests say that it is skipped
        script = "import hashlib, sys, torch\nstate = torch.load('a.pt', weights_only=True)\nwhole = hashlib.sha256()\n" \
                 "for name in sorted(state): whole.update(name.encode() + state[name].numpy().tobytes())\nprint(whole.hexdigest())"
        self.assertEqual(run(python, "-c", script, cwd=self.folder).stdout.strip(), self.sha256)

    def reported(self, out):
        a, b = self.json("report", "runs/a", "runs/b")["runs"]
        metrics = [json.loads(line) for line in (self.folder / "runs/a/metrics.jsonl").read_text().splitlines()]
        steps = [line for line in metrics if "loss_mean" in line]
        ends = [line for line in metrics if "test_loss" in line]
        self.assertEqual((a["steps_per_epoch"], a["epochs_run"]), (len(steps) / 2, 2))
        self.assertEqual((a["test_loss"], a["top1"]), (ends[-1]["test_loss"], ends[-1]["test_accuracy"]))
        self.assertEqual((a["learning_rate"], b["learning_rate"]), (0.0001, 0.01))
        self.assertEqual((a["workers"], b["workers"]), (2, 2))
        times = [json.loads(line) for line in (self.folder / "runs/a/times.jsonl").read_text().splitlines()]
        self.assertAlmostEqual(a["epoch_time_s"], times[-1]["run_s"] / 2, places=9)  # a mean of differences
        self.assertEqual(a["train"][-1][2], steps[-1]["loss_mean"])
        self.assertIn("| | a | b |", out)
        page = (self.folder / "report.html").read_text()
        self.assertEqual((page.count("<svg class=\"chart\""), page.count("<polyline")), (2, 4))  # train and test loss, two runs
        self.assertNotRegex(page, r"https?://|<script|src=")

    def damaged(self):
        """A flipped bit in the newest checkpoint: it is told, and the next older one shown."""
        newest = pathlib.Path(self.json("checkpoint", "ls", self.folder / "runs/a")["checkpoints"][0]["path"])
        file = newest / "model.safetensors"
        raw = bytearray(file.read_bytes())
        raw[-1] ^= 1
        file.write_bytes(raw)
        done = run(PROGRAM, "checkpoint", "verify", newest)
        self.assertEqual(done.returncode, BAD_DATA, done.stderr)
        self.assertIn("do not have the hash in the manifest", done.stdout)
        listed = self.json("checkpoint", "ls", self.folder / "runs/a", codes=(BAD_DATA,))["checkpoints"]
        self.assertIs(listed[0]["valid"], False)
        self.refused(BAD_DATA, "do not have the hash", PROGRAM, "checkpoint", "export", newest, self.folder / "x.pt")
        self.assertFalse((self.folder / "x.pt").exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *(sys.argv[1:] or ["Program", "Runs"])])
