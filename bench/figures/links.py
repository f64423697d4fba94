"""One pair of links between two hosts: bodies from memory into memory, one way and both ways at once.

loopback: two processes on one machine. 1gbit: two machines made of namespaces, their links limited to 1 Gb/s (0.957 of it is the most
that TCP can carry of bodies). Gb/s of one direction, the slower one where both are busy; CPU time of a process, user and system, by
all bytes that it has sent and received. Bodies are checked in each case before it is measured.
"""
import json
import os
import subprocess
import sys

from figures.common import ROOT, check, launch

sys.path.insert(0, os.path.join(ROOT, "tests/support"))
import hosts  # noqa: E402

PORT = 29401
GOAL_OF_1GBIT = 0.9


def rows(out):
    """{(body, both ways): (Gb/s of the slower direction, CPU s per GB of the dearer process)}"""
    found = {}
    for line in map(json.loads, out.splitlines()):
        rate, cost = found.get((line["body"], line["both_ways"]), (float("inf"), 0))
        found[line["body"], line["both_ways"]] = (min(rate, line.get("gbit_s", rate)), max(cost, line["cpu_s_per_gb"]))
    check(len(found) == 6 and all(rate < float("inf") for rate, _ in found.values()), f"links: cases are missing:\n{out}")
    return found


def on_loopback(bench):
    return launch([bench.program("links_bench"), str((1 if bench.quick else 4) << 30)])


def over_1gbit(bench):
    size = str((1 if bench.quick else 4) << 28)
    with hosts.Bed(2) as bed:
        for machine in bed:
            machine.rate("1gbit")
        one = bed[1].start(bench.program("links_bench"), size, "listen", bed[1].address, str(PORT), stdout=subprocess.PIPE, text=True)
        other = bed[2].run(bench.program("links_bench"), size, "dial", bed[1].address, str(PORT), timeout=300)
        out, _ = one.communicate(timeout=60)
        check(one.returncode == 0, f"links: the listening end ended with {one.returncode}")
        return out + other.stdout


def measure(bench):
    for name, run, goal in (("loopback", on_loopback, None), ("1gbit", over_1gbit, GOAL_OF_1GBIT)):
        if name == "1gbit" and hosts.missing():
            print(f"  links/1gbit: {hosts.missing()}")
            continue
        rounds = []
        for _ in range(1 if bench.quick else 3):
            bench.idle()
            rounds.append(rows(run(bench)))
        for body, both_ways in rounds[0]:
            case = f"links/{name}/{body >> 10}KB/{'both_ways' if both_ways else 'one_way'}"
            bench.row(case, "Gb/s", [each[body, both_ways][0] for each in rounds], goal=goal, less_is_better=False)
            bench.row(case + "/cpu", "s/GB", [each[body, both_ways][1] for each in rounds])
