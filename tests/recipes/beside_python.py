"""What the recipes' tests beside stock PyTorch share: a Python with the same torch, commands in a folder of their own, a run's records.

LOCKSTEP_PROGRAM, LOCKSTEP_RECIPE, LOCKSTEP_TORCH_DIR (set by CTest). Exit 77: no Python with the same torch, with the reason.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
LOCKSTEP, RECIPE = os.environ["LOCKSTEP_PROGRAM"], os.environ["LOCKSTEP_RECIPE"]
NAME = pathlib.Path(RECIPE).name


def find_python():
    found = subprocess.run([HERE.parent.parent / "tools/find_python"], capture_output=True, text=True)
    if found.returncode != 0:
        print(f"skipped: no Python with the same torch: {found.stderr.strip() or 'none found'}")
        sys.exit(77)
    return found.stdout.strip()


PYTHON = find_python()


def has_module(name):
    """Of PYTHON. Whether it also works is for the tests to find out."""
    script = f"import importlib.util; print(importlib.util.find_spec('{name}') is not None)"
    found = subprocess.run([PYTHON, "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    return found.stdout == "True\n"


def run(folder, *command, code=0, **variables):
    """Standard output and standard error of a command that ends with `code`; `variables` are its environment's."""
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True, timeout=100,
                          env=dict(os.environ, OMP_NUM_THREADS="1", **variables))
    assert done.returncode == code, f"{command}: {done.returncode}, not {code}\n{done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def python(folder, *arguments, ranks=2):
    """Standard output of the recipe's peer."""
    return run(folder, PYTHON, HERE / f"{NAME}_peer.py", *arguments, PEER_RANKS=str(ranks))[0]


def without_duration(out):
    """What a run prints, but for the time that it took."""
    return re.sub("Training complete in: .*\n", "", out)


def recipe(folder, workers, *options, launcher=(), code=0):
    """Standard output without the time it took, and standard error."""
    out, err = run(folder, LOCKSTEP, "run", "--nproc-per-node", workers, *launcher, RECIPE, *options, code=code)
    return without_duration(out), err


def run_dir(folder):
    return folder / f"{NAME}-run"


def steps(folder):
    """What the run's metrics have of each step."""
    lines = [json.loads(line) for line in (run_dir(folder) / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "loss_hex" in line]


def by_hand_place():
    """HOST:PORT where ranks meet that are started by hand: of this test alone."""
    return f"127.0.0.1:{20000 + os.getpid() % 40000}"


class Started:
    """A command in the background; killed at the block's end."""

    def __init__(self, folder, *words, **variables):
        self.out, self.err = (tempfile.TemporaryFile("w+") for _ in range(2))
        self.process = subprocess.Popen([str(word) for word in words], cwd=folder, stdout=self.out, stderr=self.err,
                                        env=dict(os.environ, OMP_NUM_THREADS="1", LOCKSTEP_LAUNCHER=LOCKSTEP, **variables))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.out.close()
        self.err.close()

    def text(self, file):
        return os.pread(file.fileno(), 1 << 20, 0).decode()

    def until_line(self, start):
        deadline = time.monotonic() + 60
        while f"\n{start}" not in "\n" + self.text(self.out):
            assert time.monotonic() < deadline and self.process.poll() is None, self.text(self.err)
            time.sleep(0.005)

    def until_complains(self, what):
        deadline = time.monotonic() + 60
        while what not in self.text(self.err):
            assert time.monotonic() < deadline and self.process.poll() is None, self.text(self.err)
            time.sleep(0.005)

    def children(self):
        return [int(pid) for pid in pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()]

    def kill(self):
        self.process.kill()
        assert self.process.wait() == -signal.SIGKILL

    def finish(self, *codes, timeout=100):
        assert self.process.wait(timeout) in (codes or (0,)), self.text(self.err)
        return self.text(self.out)


class BesidePython(unittest.TestCase):
    """A folder for each of a test's runs, under one that goes away with the class; what the peer says of all steps' losses."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="lockstep-recipe-")
        cls.addClassCleanup(cls.scratch.cleanup)

    @classmethod
    def folder(cls, name):
        folder = pathlib.Path(cls.scratch.name) / name
        folder.mkdir()
        return folder

    def assert_losses(self, ours, theirs):
        """Of each step, to the last bit: rank 0's, and the mean of all."""
        ranks = [[float.fromhex(loss) for loss in rank] for rank in json.loads((theirs / "losses.json").read_text())]
        found = steps(ours)
        self.assertEqual([float.fromhex(step["loss_hex"]) for step in found], ranks[0])
        means = [sum(loss * (step["samples"] // len(ranks)) for loss in losses) / step["samples"]
                 for step, losses in zip(found, zip(*ranks))]
        self.assertEqual([step["loss_mean"] for step in found], means)

    def assert_incidents(self, folder, count):
        self.assertEqual(len(list((run_dir(folder) / "incidents").glob("*.json"))), count)
