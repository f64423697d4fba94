#!/usr/bin/env python3
"""compare_lines.py KIND FILE: how many of the loss lines that seed 002 printed in 2019 (seed002_lines.json) a run's log has.

KIND: ddp, one_gpu or data_parallel. FILE: a log, or a golden's JSON. Prints the count of lines equal to all four decimals and the largest
difference over the lines that both have; exit 1 if the log has none of them, or one is more than 0.0001 off.
"""
import json
import pathlib
import re
import sys

PATTERN = re.compile(r"(Epoch \[\d+/10\], Step \[\d+/\d+\]), Loss: (\d+\.\d{4})")


def losses(lines):
    return {m[1]: m[2] for m in map(PATTERN.match, lines) if m}


def compare(kind, lines):
    """(lines of the document that the run reached, equal ones, largest difference in units of 0.0001)"""
    document = losses(json.loads((pathlib.Path(__file__).parent / "seed002_lines.json").read_text())[kind])
    ours = losses(lines)
    both = [(document[key], ours[key]) for key in document if key in ours]
    off = [abs(int(a.replace(".", "")) - int(b.replace(".", ""))) for a, b in both]
    return len(both), off.count(0), max(off, default=0)


def main(kind, path):
    text = pathlib.Path(path).read_text()
    lines = json.loads(text)["lines"] if path.endswith(".json") else text.splitlines()
    reached, equal, off = compare(kind, lines)
    print(f"{kind}: {equal} of {reached} lines equal to all four decimals, none more than {off / 10000:.4f} off")
    return 0 if reached and off <= 1 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
