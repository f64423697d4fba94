#!/usr/bin/env python3
"""Compares models_print's lines with what they have to be.

    models_run.py initial|peer|pt --print PROGRAM --torch-dir DIR

initial   names, shapes, dtypes, values and print() of every network, with the hashes of initial_values.txt
peer      the same and outputs, gradients and buffers of a pass in training and in evaluation mode, with Python's torchvision here
pt        .pt files of every network, read and written (models_pt.py)

LOCKSTEP_PYTHON  a Python with torch of the same version, and torchvision; default: what tools/find_python finds
Exit 77: skipped, with the reason.
"""
import argparse
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "e2e"))
from golden_run import Skip, equal, exit_code_of, one_thread, python  # noqa: E402


def lines(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, env=one_thread(), check=True).stdout.splitlines()


def initial(args):
    capability, *ours = lines(args.print, "--initial")
    if capability not in ("capability AVX2", "capability AVX512"):
        raise Skip(f"this CPU draws other numbers: initial_values.txt is for AVX2 and AVX-512, not {capability}")
    table = (HERE / "initial_values.txt").read_text().splitlines()
    equal("initial values", ours, [line for line in table if not line.startswith("#")])


def with_torchvision(torch_dir):
    interpreter = python(torch_dir)
    if subprocess.run([interpreter, "-c", "import torchvision.models"], capture_output=True).returncode != 0:
        raise Skip(f"{interpreter} cannot import torchvision")
    return interpreter


def peer(args):
    interpreter = with_torchvision(args.torch_dir)
    theirs = lines(interpreter, HERE / "models_peer.py")
    cases = sum(line.startswith("== ") for line in theirs)
    equal(f"{len(theirs)} lines on {cases} networks", lines(args.print), theirs)


def pt(args):
    subprocess.run([with_torchvision(args.torch_dir), HERE / "models_pt.py", args.print], env=one_thread(), check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=("initial", "peer", "pt"))
    parser.add_argument("--print", required=True)
    parser.add_argument("--torch-dir", required=True)
    args = parser.parse_args()
    return exit_code_of(lambda: {"initial": initial, "peer": peer, "pt": pt}[args.case](args))


if __name__ == "__main__":
    sys.exit(main())
