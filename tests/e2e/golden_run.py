#!/usr/bin/env python3
"""Runs the ConvNet recipe and compares it, bit for bit, with what PyTorch or the stranger's script gives on this machine.

    golden_run.py CASE --lockstep PROGRAM --convnet PROGRAM --ddp-loop PROGRAM --optimizers PROGRAM --two-groups PROGRAM
                  --amp-run PROGRAM --torch-dir DIR

Case                    the run                                             compared with
initial                 V = 1, one step at learning rate 0                  golden 'initial' (stock PyTorch)
v1                      V = 1, set_epoch, 620 steps                         golden 'v1'
v2-w1, v2-w2            V = 2, set_epoch, 320 steps, on 1 and 2 workers     golden 'v2' (stock DistributedDataParallel)
ddp-w1 ... ddp-w4       seed 002's 4-GPU run, its lines, on 1 to 4 workers  golden 'ddp', and the document's own lines
ddp-killed              the same on 3 workers, one of them killed           the same
one-gpu                 seed 002's one-GPU run, its lines                   golden 'one_gpu', and the document's own lines
ddp-loop                examples/ddp_loop on 2 ranks                        ddp_loop.py (stock DistributedDataParallel)
apex-levels             V = 1, 2: convnet --opt-level, overflow as it comes     apex.py (Apex's rules)
apex-masters            V = 3: half weights, fp32 masters, overflow planted     apex.py
optimizers              optimizers_print.cpp                                optimizers.py (torch.optim)
amp-bf16, amp-fp16      V = 3: mixed precision, overflow planted            amp.py (torch.autocast, torch.amp.GradScaler)
stranger-NAME           V = 3, 5, ... with sgd, momentum, adam, adamw       stranger.py

LOCKSTEP_TEST_DATA  folder with mnist/ (or MNIST/raw/); default: ../shared/data beside the checkout
LOCKSTEP_PYTHON     a Python with torch of the same version; default: what tools/find_python finds
LOCKSTEP_GOLDEN_EPOCHS  epochs of the ddp-* and one-gpu cases; default 1, the document has 10 (and, of the print, 4)
Exit 77: skipped, with the reason.
"""
import argparse
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
ROOT = HERE.parent.parent
sys.path.insert(0, str(GOLDEN))
import compare_lines  # noqa: E402

# All on the first 1,003 images, which no V here divides: the sampler pads, and each epoch ends with a short batch.
SUBSET = {"train": 1003, "t10k": 200}
STRANGER = {
    "stranger-v3": "--virtual-workers 3 --epochs 4 --batch-size 100",
    "stranger-v5": "--virtual-workers 5 --epochs 3 --batch-size 64 --max-steps 11",
    "stranger-v5-momentum": "--virtual-workers 5 --epochs 2 --batch-size 32 --lr 0.01 --momentum 0.9",
    "stranger-v3-adam": "--virtual-workers 3 --epochs 2 --batch-size 50 --optimizer adam --lr 1e-3",
    "stranger-v8-adam": "--virtual-workers 8 --epochs 2 --batch-size 16 --optimizer adam --lr 1e-3 --seed 7",
    # What tests/e2e/two_groups.cpp has built in.
    "stranger-v3-adamw": "--virtual-workers 3 --epochs 2 --batch-size 50 --optimizer adamw --lr 1e-3 --weight-decay 0.05 "
                         "--fc-lr 1e-2 --fc-weight-decay 0.2 --clip-grad-norm 0.5",
    # The epoch's 7 batches of each virtual worker make steps of 3, 3 and 1.
    "stranger-v5-accumulation": "--virtual-workers 5 --epochs 2 --batch-size 32 --accumulation-steps 3 --lr 0.01 --momentum 0.9",
    "stranger-v7-epochs": "--virtual-workers 7 --epochs 3 --batch-size 40 --shuffle reshuffle --lr 0.01",
}
# 2^19 overflows float16 in the backward: steps are left out until the scale fits, then it grows and overflows again.
AMP = {
    "amp-bf16": "--precision bf16 --max-steps 8",
    "amp-fp16": "--precision fp16 --max-steps 12 --init-scale 524288 --growth-interval 2",
}
# The scale of 2^16 overflows in the second or fifth of these steps.
APEX_LEVELS = ["--opt-level O1 --virtual-workers 2", "--opt-level O2 --virtual-workers 1",
               "--opt-level O2 --virtual-workers 2", "--opt-level O2 --half-dtype bf16 --virtual-workers 2",
               "--opt-level O3 --virtual-workers 2"]
APEX_STEPS = "--batch-size 4 --max-steps 6 --lr 0.01 --momentum 0.9"
WORKERS = {"stranger-v3": 2, "stranger-v5": 3, "stranger-v5-momentum": 2, "stranger-v3-adam": 3, "stranger-v8-adam": 3,
           "stranger-v3-adamw": 2, "stranger-v5-accumulation": 3, "stranger-v7-epochs": 2}


class Skip(Exception):
    pass


def mnist():
    base = pathlib.Path(os.environ.get("LOCKSTEP_TEST_DATA", ROOT.parent / "shared/data"))
    for folder in (base / "mnist", base):
        for sub in ("", "MNIST/raw"):
            if any((folder / sub / f"train-images-idx3-ubyte{end}").exists() for end in ("", ".gz")):
                return folder
    raise Skip(f"no MNIST under {base}: set LOCKSTEP_TEST_DATA to a folder that has mnist/")


def python(torch_dir):
    env = dict(os.environ, LOCKSTEP_TORCH_DIR=torch_dir)
    found = subprocess.run([ROOT / "tools/find_python"], capture_output=True, text=True, env=env)
    if found.returncode != 0:
        raise Skip(f"no Python with torch of the version in {torch_dir}: {found.stderr.strip() or 'none found'}")
    return found.stdout.strip()


def one_thread():
    return dict(os.environ, OMP_NUM_THREADS="1")


def golden(interpreter, data, kind, epochs):
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "lockstep/goldens"
    command = [interpreter, GOLDEN / "make_goldens.py", "--data", data, "--cache", cache, "--kinds", kind, "--epochs", str(epochs)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=one_thread(), check=True)
    return json.loads(pathlib.Path(done.stdout.strip()).read_text())


class Run:
    """One run of the recipe: its lines, losses, ids and hash."""

    def __init__(self, args, data, workers, options, launcher_options=()):
        with tempfile.TemporaryDirectory() as scratch:
            output = pathlib.Path(scratch) / "run"
            command = [args.convnet, *options, "--data", data, "--output", output]
            if workers > 1 or launcher_options:
                command = [args.lockstep, "run", "--standalone", "--nproc-per-node", str(workers), *launcher_options, *command]
            print("$", " ".join(map(str, command)), flush=True)
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=one_thread(), timeout=1800)
            self.lines = done.stdout.splitlines()
            if done.returncode != 0:
                raise AssertionError(f"exit code {done.returncode}; last lines: {self.lines[-5:]}")
            self.metrics = [m for m in records(output / "metrics.jsonl") if "loss_hex" in m]
            self.ledger = [m["ids"] for m in records(output / "ledger.jsonl")]
            self.incidents = len(list((output / "incidents").glob("*.json"))) if (output / "incidents").is_dir() else 0

    def hash(self):
        return self.lines[-1].removeprefix("weights sha256 ")

    def losses(self):
        return [float.fromhex(m["loss_hex"]) for m in self.metrics]

    def loss_lines(self):
        return [line for line in self.lines if ", Step [" in line]


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def equal(what, ours, theirs):
    if ours == theirs:
        print(f"equal: {what}")
        return
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), None) if isinstance(ours, list) else None
    if at is None:
        raise AssertionError(f"{what} differ: {str(ours)[:300]} against {str(theirs)[:300]}")
    raise AssertionError(f"{what} differ at {at}: {ours[at]} against {theirs[at]} (lengths {len(ours)} and {len(theirs)})")


def compare_steps(run, gold, virtual_workers):
    want_ids = [step if virtual_workers > 1 else [step] for step in gold["ids"]]
    equal(f"data order of {len(want_ids)} steps", run.ledger[:len(want_ids)], want_ids)
    equal(f"losses of {gold['steps']} steps", run.losses(), [float.fromhex(v) for v in gold["losses"]])
    equal(f"weights after {gold['steps']} steps", run.hash(), gold["sha256"])


def case_steps(args, data, interpreter, kind, workers):
    gold = golden(interpreter, data, kind, 1)
    virtual_workers = 2 if kind == "v2" else 1
    lr = "0" if kind == "initial" else "1e-4"
    options = ["--virtual-workers", str(virtual_workers), "--shuffle", "reshuffle", "--max-steps", str(gold["steps"]), "--lr", lr]
    compare_steps(Run(args, data, workers, options), gold, virtual_workers)


def case_lines(args, data, interpreter, kind, workers, launcher_options=()):
    epochs = int(os.environ.get("LOCKSTEP_GOLDEN_EPOCHS", 1))
    gold = golden(interpreter, data, kind, epochs)
    per_epoch, virtual_workers, shuffle = (150, 4, "distributed") if kind == "ddp" else (600, 1, "legacy")
    run = Run(args, data, workers, [
        "--virtual-workers", str(virtual_workers), "--shuffle", shuffle, "--epochs", "10", "--max-steps", str(per_epoch * epochs),
        "--log-every", "50" if kind == "ddp" else "100"], launcher_options)
    equal("incidents", run.incidents, 1 if launcher_options else 0)
    equal(f"{len(gold['lines'])} printed lines", run.loss_lines(), gold["lines"])
    equal("weights", run.hash(), gold["sha256"])
    reached, same, off = compare_lines.compare(kind, run.loss_lines())
    print(f"the document's lines: {same} of {reached} equal to all four decimals, none more than {off / 10000:.4f} off")
    equal("lines of the document are reached", reached > 0, True)
    equal("lines of the document more than 0.0001 off", off > 1, False)


def subset(source, goal):
    """MNIST's folder with the first images alone."""
    for part, count in SUBSET.items():
        for kind, dims in (("images-idx3", 3), ("labels-idx1", 1)):
            name = f"{part}-{kind}-ubyte"
            path = next(p for sub in ("", "MNIST/raw") for end in ("", ".gz") if (p := source / sub / (name + end)).exists())
            raw = (gzip.open if path.suffix == ".gz" else open)(path, "rb").read()
            header = 4 + 4 * dims
            bytes_each = (len(raw) - header) // int.from_bytes(raw[4:8], "big")
            goal.mkdir(exist_ok=True)
            (goal / name).write_bytes(raw[:4] + count.to_bytes(4, "big") + raw[8:header] + raw[header:header + count * bytes_each])
    return goal


def case_stranger(args, data, interpreter, name):
    with tempfile.TemporaryDirectory() as scratch:
        compare_stranger(args, subset(data, pathlib.Path(scratch) / "digits"), interpreter, name)


def compare_stranger(args, data, interpreter, name):
    options = STRANGER[name].split()
    command = [interpreter, GOLDEN / "stranger.py", "--data", data, "--losses", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=one_thread(), check=True)
    lines = done.stdout.splitlines()
    if name == "stranger-v3-adamw":
        args.convnet, options = args.two_groups, options[:options.index("--optimizer")]
    run = Run(args, data, WORKERS[name], options)
    equal("losses", run.losses(), [float.fromhex(line.split()[3]) for line in lines if line.startswith("step ")])
    equal("weights", f"weights sha256 {run.hash()}", lines[-1])


def case_amp(args, data, interpreter, name):
    with tempfile.TemporaryDirectory() as scratch:
        data = subset(data, pathlib.Path(scratch) / "digits")
        options = ["--virtual-workers", "3", "--batch-size", "4", *AMP[name].split()]
        command = [interpreter, GOLDEN / "amp.py", "--data", data, *options]
        theirs = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=one_thread(), check=True).stdout.splitlines()
        args.convnet = args.amp_run
        options += ["--checkpoint-every", "5"]
        one = ["--inject", "kill rank=1 txn=6 phase=backward"]
        # The group starts again from the checkpoint behind step 5, at which fp16's scale has moved.
        all_of_them = ["--max-replacements", "0", "--max-restarts", "1", "--inject", "kill txn=7 phase=backward; kill txn=7 phase=backward"]
        for launcher_options in ([], one, all_of_them):
            run = Run(args, data, 2, options, launcher_options)
            equal("there was an incident", run.incidents > 0, bool(launcher_options))
            steps = [line.split() for line in theirs if line.startswith("step ")]
            equal("losses", run.losses(), [float.fromhex(words[3]) for words in steps])
            if "--init-scale" in options:
                equal("scales", [m["scale"] for m in run.metrics], [float(words[5]) for words in steps])
            equal("weights", f"weights sha256 {run.hash()}", theirs[-1])
    if name == "amp-fp16":
        equal("steps were left out", 2 <= int(theirs[-2].split()[1]) <= 12, True)
        equal("the scale had moved", float(steps[4][5]) != float(steps[0][5]), True)


def apex(interpreter, data, options):
    """What apex.py prints, by what it is of."""
    command = [interpreter, GOLDEN / "apex.py", "--data", data, *options]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=one_thread(), check=True).stdout.splitlines()
    steps = [line.split() for line in lines if line.startswith("step ")]
    return {"losses": [float.fromhex(words[3]) for words in steps], "scales": [float(words[5]) for words in steps],
            "skipped": int(lines[-2].split()[1]), "hash": lines[-1].removeprefix("weights sha256 ")}


def compare_apex(run, theirs, scaled=True):
    equal("losses", run.losses(), theirs["losses"])
    scales = theirs["scales"] if scaled else [None] * len(theirs["scales"])
    equal("scales", [m.get("scale") for m in run.metrics], scales)
    equal("weights", run.hash(), theirs["hash"])


def case_apex_levels(args, data, interpreter):
    skipped = 0
    for level in APEX_LEVELS:
        options = [*level.split(), *APEX_STEPS.split()]
        theirs = apex(interpreter, data, options)
        run = Run(args, data, 2 if "2" in options[:6] else 1, options)
        compare_apex(run, theirs, scaled="O3" not in options)
        skipped += theirs["skipped"]
    equal("steps were left out", skipped > 0, True)


def case_apex_masters(args, data, interpreter):
    options = ["--virtual-workers", "3", "--batch-size", "4", "--max-steps", "12", "--init-scale", "524288"]
    theirs = apex(interpreter, data, [*options, "--half-dtype", "fp16", "--scale-window", "2", "--clip-grad-norm", "0.5", "--max-scale", "524288"])
    args.convnet = args.amp_run
    options += ["--precision", "fp16", "--masters", "--growth-interval", "2", "--max-scale", "524288"]
    for launcher_options in ([], ["--inject", "kill rank=1 txn=6 phase=backward"]):
        run = Run(args, data, 2, options, launcher_options)
        equal("incidents", run.incidents, 1 if launcher_options else 0)
        compare_apex(run, theirs)
    equal("steps were left out", 2 <= theirs["skipped"] <= 10, True)


APEX = {"apex-levels": case_apex_levels, "apex-masters": case_apex_masters}


def case_ddp_loop(args, data, interpreter):
    options = ["--max-steps", "40", "--accumulate", "2", "--batch-size", "100"]
    theirs = subprocess.run([interpreter, GOLDEN / "ddp_loop.py", "--data", data, *options], stdout=subprocess.PIPE, text=True,
                            env=one_thread(), check=True)
    with tempfile.TemporaryDirectory() as scratch:
        command = [args.lockstep, "run", "--nproc-per-node", "2", args.ddp_loop, "--data", data, "--output", f"{scratch}/run", *options]
        ours = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=one_thread(), check=True, timeout=300)
    equal("weights", ours.stdout.splitlines()[-1], theirs.stdout.splitlines()[-1])


def case_optimizers(args, interpreter):
    theirs = subprocess.run([interpreter, GOLDEN / "optimizers.py"], stdout=subprocess.PIPE, text=True, env=one_thread(), check=True)
    ours = subprocess.run([args.optimizers], stdout=subprocess.PIPE, text=True, env=one_thread(), check=True)
    equal("parameters after updates", ours.stdout.splitlines(), theirs.stdout.splitlines())


def run_case(args):
    interpreter, name = python(args.torch_dir), args.case
    if name == "optimizers":
        return case_optimizers(args, interpreter)
    data = mnist()
    if name in STRANGER:
        case_stranger(args, data, interpreter, name)
    elif name in AMP:
        case_amp(args, data, interpreter, name)
    elif name in APEX:
        with tempfile.TemporaryDirectory() as scratch:
            APEX[name](args, subset(data, pathlib.Path(scratch) / "digits"), interpreter)
    elif name == "ddp-loop":
        case_ddp_loop(args, data, interpreter)
    elif name == "ddp-killed":
        case_lines(args, data, interpreter, "ddp", 3, ["--inject", "kill rank=1 txn=60 phase=backward"])
    elif name == "one-gpu":
        case_lines(args, data, interpreter, "one_gpu", 1)
    elif name.startswith("ddp-w"):
        case_lines(args, data, interpreter, "ddp", int(name[5:]))
    else:
        case_steps(args, data, interpreter, name.split("-")[0], int(name.partition("-w")[2] or 1))


def exit_code_of(case):
    """Of a test for ctest: 77 for a skip, with the reason, 1 for what is not as it has to be."""
    try:
        case()
    except Skip as reason:
        print(f"skipped: {reason}")
        return 77
    except AssertionError as error:
        print(f"FAILED: {error}")
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case")
    parser.add_argument("--lockstep", required=True)
    parser.add_argument("--convnet", required=True)
    parser.add_argument("--ddp-loop", required=True, dest="ddp_loop")
    parser.add_argument("--optimizers", required=True)
    parser.add_argument("--two-groups", required=True, dest="two_groups")
    parser.add_argument("--amp-run", required=True, dest="amp_run")
    parser.add_argument("--torch-dir", required=True)
    args = parser.parse_args()
    return exit_code_of(lambda: run_case(args))


if __name__ == "__main__":
    sys.exit(main())
