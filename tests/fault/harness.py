"""What the fault tests share: tiny data, runs of the ConvNet recipe, and what has to hold after each.

LOCKSTEP_PROGRAM, LOCKSTEP_CONVNET  the two programs (set by CTest)
LOCKSTEP_LOOPS, LOCKSTEP_EXAMPLES  where the programs of tests/loops and of examples are
LOCKSTEP_FAULT_SEED  seed of the random moments; default: a new one each time, printed
"""
import concurrent.futures
import functools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

LOCKSTEP = os.environ["LOCKSTEP_PROGRAM"]
CONVNET = os.environ["LOCKSTEP_CONVNET"]
SEED = int(os.environ.get("LOCKSTEP_FAULT_SEED", random.SystemRandom().randrange(1 << 32)))

# Data sets of noise, by name: images for training and for evaluation. 'short': 53 on 8 virtual workers at batch 2 are padded, and
# an epoch is 4 steps, the last one short, and an evaluation, so that transactions 0-3 are steps, 4 is an evaluation, and so on.
# 'evaluate': the same with an evaluation of 3 batches, two of 1,000 images and a short one. 'long': an epoch is 50 steps.
# The set of runs over several hosts, which evaluate in half precision: oneDNN has convolutions of that for AVX-512; elsewhere an image
# takes some twenty times as long. Six batches, so that each of five workers has one.
MANY = (405, 5017 if "avx512bw" in pathlib.Path("/proc/cpuinfo").read_text() else 137)
MANY_BATCH = MANY[1] // 5
DATA = {"short": (53, 17), "evaluate": (53, 2017), "long": (1595, 17)}
STEPS, PER_EPOCH = 4, 5
BASE = ("--virtual-workers", 8, "--batch-size", 2, "--lr", 0.05, "--momentum", 0.9, "--log-every", 0, "--data", "short")
SHORT = ("--epochs", 3)  # 15 transactions
LONG = ("--data", "long", "--batch-size", 4, "--epochs", 6)  # 306 transactions
LONGER = LONG + ("--epochs", 12)  # 612: for several newcomers, one after the other
# What convnet prints before it looks at its data: versions, the device, the model.
GREETING = re.compile(r"\A\d+\.\d+\.\d+\nFalse\n\d+\n.+\nConvNet\(\n(?:  .*\n)+\)\n")


def merged(*options):
    """Words of pairs of name and value; of each name the last one given, and none where the value is None."""
    words = [word for part in options for word in part]
    pairs = dict(zip(words[::2], words[1::2]))
    return [word for name, value in pairs.items() if value is not None for word in (name, value)]


def is_step(txn):
    return txn % PER_EPOCH < STEPS


def write_idx(folder, train, test):
    """Noise in the shape of MNIST: the promise is about bits, not about learning."""
    folder.mkdir(parents=True)
    for part, count in (("train", train), ("t10k", test)):
        noise = random.Random(part)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, count, 28, 28) + noise.randbytes(count * 784))
        labels = bytes(noise.randrange(10) for _ in range(count))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, count) + labels)
    return folder


def once(function):
    """functools.cache, for threads: one computes it, the others wait."""
    lock, cached = threading.RLock(), functools.cache(function)

    @functools.wraps(function)
    def computed(*arguments, **words):
        with lock:
            return cached(*arguments, **words)
    return computed


@once
def scratch():
    """A folder of this process's own: data, runs, and all the temporary files that programs may want to make."""
    folder = tempfile.TemporaryDirectory(prefix="lockstep-fault-")
    scratch.keep = folder  # removed at exit
    path = pathlib.Path(folder.name)
    (path / "tmp").mkdir()
    for name, counts in DATA.items():
        write_idx(path / name, *counts)
    return path


def environment(**more):
    away = {"TMPDIR": str(scratch() / "tmp"), "HOME": str(scratch() / "tmp"), "XDG_CACHE_HOME": str(scratch() / "tmp")}
    return {**os.environ, "OMP_NUM_THREADS": "1", **away, **more}


def processes_of(text):
    """Live processes with `text` in their command line: launcher, zygote and workers of a run, by its directory."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if str(text).encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:  # gone in the meantime
                pass
    return found


def state_of(pid):
    """R, S, T, Z, ... of a process."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def until(condition, what, seconds=60, pause=0.002):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s for {what}")
        time.sleep(pause)


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Run:
    """One command, started at once: the recipe (or `program`, its words) under the launcher, or alone (workers=None)."""

    def __init__(self, output, workers, options=(), launcher=(), env=None, flags=(), delayed=False, program=None):
        self.output = pathlib.Path(output)
        command = program or [CONVNET, *merged(BASE, ("--output", self.output), options), *flags]
        if workers is not None:
            command = [LOCKSTEP, "run", "--standalone", "--nproc-per-node", workers, *launcher, *command]
        self.command = [str(word) for word in command]
        logs = tempfile.mkdtemp(dir=scratch(), prefix="logs-")
        self.out_path, self.err_path = pathlib.Path(logs) / "out", pathlib.Path(logs) / "err"
        self.env = env or environment()
        self.out_path.touch()
        self.err_path.touch()
        if not delayed:
            self.begin()

    def begin(self):
        with self.out_path.open("wb") as out, self.err_path.open("wb") as err:
            self.process = subprocess.Popen(self.command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=self.env, cwd=scratch())

    def wait(self, seconds=120):
        try:
            self.code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.fail(f"still running after {seconds} s")
        self.out, self.err = self.out_path.read_text(), self.err_path.read_text()
        return self

    def fail(self, what):
        status = subprocess.run([LOCKSTEP, "status", self.output], capture_output=True, text=True).stdout
        for pid in processes_of(self.output):
            os.kill(pid, signal.SIGKILL)
        raise AssertionError(f"{what}\n$ {' '.join(self.command)}\n{status}{self.out_path.read_text()[-2000:]}\n"
                             f"{self.err_path.read_text()[-4000:]}")

    def expect(self, code):
        if self.wait().code != code:
            self.fail(f"exit code {self.code}, not {code}")
        if left := processes_of(self.output):
            self.fail(f"processes {left} are left behind")
        if names := [str(p) for p in self.output.rglob(".tmp-*")]:
            self.fail(f"left behind: {names}")
        return self

    # While it runs
    def status(self):
        done = subprocess.run([LOCKSTEP, "status", self.output, "--json"], capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else {"members": []}

    def worker(self, rank):
        """The process that is `rank` now."""
        return until(lambda: next((m["pid"] for m in self.status()["members"] if m["rank"] == rank), None), f"rank {rank}")

    def members(self):
        return [m for m in self.status()["members"] if m["rank"] is not None]

    def committed(self):
        """Transactions that the ledger and the metrics hold."""
        path = self.output / "metrics.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def until_committed(self, count):
        def ready():
            return self.committed() >= count or self.process.poll() is not None
        until(ready, f"{count} committed transactions")

    def until_saved(self):
        """Checkpoints are written beside the steps: what is due need not be there."""
        until(lambda: any((self.output / "checkpoints").glob("step-*")), "the first checkpoint")

    def send(self, number):
        self.process.send_signal(number)
        return self

    # Afterwards
    def result(self):
        return json.loads((self.output / "result.json").read_text())

    def hashes(self):
        result = self.result()
        return {key: result[key] for key in ("weights_sha256", "state_sha256", "steps")}

    def incidents(self):
        return [json.loads(p.read_text()) for p in sorted((self.output / "incidents").glob("[0-9]*.json"))]

    def victims(self):
        return [v for incident in self.incidents() for v in incident["victims"]]


class FaultTest(unittest.TestCase):
    """Each test has a folder; every run is compared with the undisturbed one of the same options."""

    maxDiff = 2000

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=scratch(), prefix="case-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.count = 0

    def start(self, workers, options=(), launcher=(), output=None, **more):
        self.count += 1
        return Run(output or self.folder / f"run{self.count}", workers, options, launcher, **more)

    def run_to_end(self, *args, code=0, **more):
        return self.start(*args, **more).expect(code)

    def assert_same(self, run, options):
        """Weights, optimizer state, sample ids and losses are those of the undisturbed run."""
        reference = undisturbed(options)
        self.assertEqual(run.hashes(), reference["hashes"], run.err)
        self.assertEqual(run.out.splitlines()[-1], f"weights sha256 {reference['hashes']['weights_sha256']}")
        for name in ("ledger.jsonl", "metrics.jsonl"):
            self.assertEqual(records(run.output / name), reference[name], f"{name}\n{run.err}")

    def assert_killed(self, run, ranks):
        """Workers of these ranks died, each in an incident that ended with a commit."""
        self.assertEqual(sorted(v["rank"] for v in run.victims()), sorted(ranks), f"{run.incidents()}\n{run.err}")
        for incident in run.incidents():
            self.assertEqual(incident["rung"], 1, run.err)
            self.assertIn("committed", incident["ms"], incident)


def ending(run):
    """What has to be the same, whatever happened."""
    return {"hashes": run.hashes(), **{name: records(run.output / name) for name in ("ledger.jsonl", "metrics.jsonl")}}


@once
def undisturbed(options=(), program=None):
    """The same options on one worker without the launcher; `program`: gives the words of another command for a run directory."""
    output = pathlib.Path(tempfile.mkdtemp(dir=scratch(), prefix="reference-")) / "run"
    return ending(Run(output, None, options, program=program and program(output)).expect(0))


def built(name):
    """A program of tests/loops or of examples."""
    return next(str(path) for folder in ("LOOPS", "EXAMPLES") if (path := pathlib.Path(os.environ[f"LOCKSTEP_{folder}"]) / name).exists())


def enter_namespaces():
    """Starts this script again where processes, ports, /tmp and /dev/shm are its own, so that what is left behind can be told
    from what others do at the same time. Returns why not, where it cannot."""
    if "LOCKSTEP_FAULT_NAMESPACES" in os.environ:
        for folder in ("/tmp", "/dev/shm"):
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
        return ""
    unshare = ["unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child"]
    unshare += [] if os.geteuid() == 0 else ["--map-root-user"]
    covered = [path for path in (LOCKSTEP, CONVNET, __file__) if os.path.realpath(path).startswith(("/tmp/", "/dev/shm/"))]
    if covered:
        return f"'{covered[0]}' is where a folder of the test's own comes: build elsewhere than in /tmp and /dev/shm"
    if shutil.which("unshare") is None:
        return "there is no unshare on this system"
    if subprocess.run([*unshare, "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], capture_output=True).returncode != 0:
        return "no namespaces of one's own (unshare) are allowed on this system"
    os.environ["LOCKSTEP_FAULT_NAMESPACES"] = "1"
    os.execvp("unshare", [*unshare, sys.executable, *sys.argv])


def at_once(function, items, threads=2):
    """function(item) for all, `threads` at a time; the first failure counts."""
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


def main():
    print(f"LOCKSTEP_FAULT_SEED={SEED}", flush=True)
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    if result.testsRun and len(result.skipped) == result.testsRun:
        print("\n".join(f"skipped: {reason}" for _, reason in result.skipped))
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
