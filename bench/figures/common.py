"""What all figures share: programs, the peers, samples, and the machine they were taken on. Standard library only."""
import gzip
import json
import os
import platform
import random
import resource
import shutil
import statistics
import subprocess
import time

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(HERE)


class Missing(Exception):
    """A peer that cannot be measured here; the reason stands in the table."""


def check(holds, what):
    if not holds:
        raise RuntimeError(what)


def median(values):
    return statistics.median(values)


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def machine():
    lines = open("/proc/cpuinfo").read().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    flags = next((line for line in lines if line.startswith("flags")), "")
    isa = next((name for name in ("avx512_bf16", "avx512f", "avx2") if name in flags.split()), "no AVX2")
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {isa}"


def cpu_seconds():
    fields = [int(x) for x in open("/proc/stat").readline().split()[1:9]]
    return sum(fields[:3] + fields[5:7]) / os.sysconf("SC_CLK_TCK")


def stolen_seconds():
    """CPU time that the host of this virtual machine gave to others while we wanted it."""
    return int(open("/proc/stat").readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def commit():
    """What is measured; +dirty: sources that are in no commit, results apart."""
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()
    changed = git("status", "--porcelain", "--", ".", ":!bench/results")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("+dirty" if changed else "")


def wait_idle(limit_s):
    """Until the machine does little else, at most limit_s."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        before, begin = cpu_seconds(), time.monotonic()
        time.sleep(0.5)
        if (cpu_seconds() - before) / (time.monotonic() - begin) < 0.1:
            return


def launch(command, env=None, timeout=600, cwd=None):
    """A process that must succeed; its standard output."""
    done = subprocess.run(command, env={**os.environ, **(env or {})}, cwd=cwd, timeout=timeout, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    check(done.returncode == 0, f"'{' '.join(command)}' ended with exit {done.returncode}: {(done.stderr or done.stdout)[-800:]}")
    return done.stdout


def weights_hash(text):
    found = [line.split()[-1] for line in text.splitlines() if line.startswith("weights sha256 ")]
    check(len(found) == 1, "a run printed no weights hash, or several:\n" + text[-800:])
    return found[0]


MICRO = ("exchange_bench", "image_bench", "checkpoint_bench", "control_bench", "links_bench", "loader_bench", "nodes_bench")


class Bench:
    def __init__(self, options, scratch):
        self.scratch, self.quick, self.idle_s = scratch, options.quick, options.wait_idle
        self.build = os.path.abspath(options.build)
        self.lockstep = self.build + "/bin/lockstep"
        self.convnet = self.build + "/recipes/convnet/convnet"
        self.peers = os.path.abspath(options.peers)
        self._python = self._peer_data = None
        self.rows, self.machine, self.commit = [], machine(), commit()

    def program(self, name):
        return f"{self.build}/bench/{'micro' if name in MICRO else 'programs'}/{name}"

    def path(self, name):
        return os.path.join(self.scratch, name)

    def run(self, workers, *program, options=()):
        """The command that starts `program` on so many workers."""
        return [self.lockstep, "run", "--standalone", "--nproc-per-node", str(workers), *options, *program]

    def idle(self):
        wait_idle(self.idle_s)

    # Python's side -------------------------------------------------------------------------------

    def python(self):
        if self._python is None:
            found = subprocess.run([ROOT + "/tools/find_python"], capture_output=True, text=True)
            self._python = found.stdout.strip() or Missing("no Python with torch" + (": " + found.stderr.strip() if found.stderr else ""))
        if isinstance(self._python, Missing):
            raise self._python
        return self._python

    def peer(self, script):
        if not os.path.exists(os.path.join(self.peers, script)):
            raise Missing(f"no {script} in the --peers folder")
        return os.path.join(self.peers, script)

    def peer_trainer(self):
        """trainer.py, which needs torchvision."""
        if subprocess.run([self.python(), "-c", "import torchvision"], capture_output=True).returncode != 0:
            raise Missing("Python has no torchvision")
        return self.peer("trainer.py")

    def torchrun(self, workers, *command):
        return [self.python(), "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}", *command]

    def peer_env(self, **more):
        return {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PYTHONPATH": self.peers, "PEER_T0": repr(time.monotonic()), **more}

    def data(self):
        """Real MNIST if it is at hand, else the drawn digits (`--data synthetic`): what --data takes, and the folder."""
        for folder in (os.environ.get("LOCKSTEP_TEST_DATA", ""), os.path.join(ROOT, "..", "shared", "data")):
            if folder and os.path.isdir(os.path.join(folder, "mnist")):
                return os.path.join(folder, "mnist")
        return "synthetic"

    def peer_data(self):
        """The same images where torchvision looks for them."""
        if self._peer_data is None:
            folder = self.data()
            if folder == "synthetic":
                folder = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "lockstep", "digits-v1")
            raw = self.path("peer-data/MNIST/raw")
            os.makedirs(raw)
            for base, _, names in os.walk(folder):
                for name in names:
                    if "idx" in name:
                        opener = gzip.open if name.endswith(".gz") else open
                        with opener(os.path.join(base, name), "rb") as source, open(os.path.join(raw, name.removesuffix(".gz")), "wb") as target:
                            shutil.copyfileobj(source, target)
            self._peer_data = self.path("peer-data")
        return self._peer_data

    # Rows ----------------------------------------------------------------------------------------

    def row(self, name, unit, values, *, value=None, goal=None, peer=None, less_is_better=True, why_no_peer="", note="", **known):
        """`value`: the median of `values` unless given. `ratio`: how many times better than the peer. `known`: fields not to be
        taken from `values`."""
        value = median(values) if value is None else value
        met = None if goal is None else value <= goal if less_is_better else value >= goal
        ratio = None if not peer else peer / value if less_is_better else value / peer
        self.rows.append({"name": name, "unit": unit, "value": digits(value), "peer": digits(peer), "ratio": digits(ratio), "goal": goal,
                          "met": met, "samples": len(values), "machine": self.machine, "min": digits(min(values)),
                          "median": digits(median(values)), "p99": digits(percentile(values, 0.99)), "why_no_peer": why_no_peer, "note": note,
                          "commit": self.commit, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                          "load_average": round(os.getloadavg()[0], 1), "mnist": "drawn digits" if self.data() == "synthetic" else "real",
                          **({"quick": True} if self.quick else {}), **known})
        print(line_of(self.rows[-1], "<=" if less_is_better else ">="), flush=True)


def digits(value):
    return None if value is None else float(f"{value:.4g}")


HEADER = f"{'name':34} {'unit':6} {'value':>9} {'min':>9} {'median':>9} {'p99':>9} {'peer':>9} {'ratio':>8} {'goal':>9}  met"


def line_of(row, sign):
    def cell(key, width=9):
        return f"{'' if row[key] is None else format(row[key], 'g'):>{width}}"
    met = {None: "", True: "yes", False: "NO"}[row["met"]]
    goal = "" if row["goal"] is None else f"{sign} {row['goal']:g}"
    tail = f"  [no peer: {row['why_no_peer']}]" if row["why_no_peer"] else ""
    return (f"{row['name']:34} {row['unit']:6} {cell('value')} {cell('min')} {cell('median')} {cell('p99')} {cell('peer')} "
            f"{cell('ratio', 8)} {goal:>9}  {met}{tail}")


def peer_or_reason(call):
    """(what call() gives, '') or (None, why it could not be had)."""
    try:
        return call(), ""
    except Missing as reason:
        return None, str(reason)


def jsons(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def peer_events(folder):
    """What the peers' processes have written there so far; each has a file."""
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        with open(os.path.join(folder, name)) as file:
            yield from (json.loads(line) for line in file if line.endswith("\n"))


def clock():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic(), cpu_seconds(), usage.ru_utime + usage.ru_stime, stolen_seconds()


def taken_since(begin):
    """Cores, on average since `begin` = clock(): what processes not ours used, and what the machine's host took away."""
    now = clock()
    wall, total, own, stolen = (b - a for a, b in zip(begin, now))
    return {"others_used_cores": round(max(0.0, total - own) / wall, 2), "stolen_cores": round(stolen / wall, 3)}


def interval(values):
    """The middle 95 % of the medians of 2000 samples drawn anew from `values` (bootstrap)."""
    draw = random.Random(0)
    medians = sorted(median(draw.choices(values, k=len(values))) for _ in range(2000))
    return {"low": digits(medians[50]), "high": digits(medians[-51])}
