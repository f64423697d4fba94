"""Sum over two processes on one host: Lockstep's shared-memory exchange against the Gloo of the same torch wheel.

Each sample is the slower process's time; data are written anew before it. Both programs verify sums of a closed form first.
Rounds alternate. value: the median of the rounds' medians; min: the least of all.
"""
import json

from figures.common import launch, median

GOALS_US = {"4B": 3, "64KB": 10, "1MB": 50, "25MB": 1700, "44.7MB": 3000}


def one_round(bench, program):
    path = bench.path(program + ".json")
    launch([bench.program(program), "--json", path])
    return {row["name"].split("/")[1]: row for row in json.load(open(path))}


def measure(bench):
    ours, gloo = [], []
    for _ in range(1 if bench.quick else 7):
        bench.idle()
        ours.append(one_round(bench, "exchange_bench"))
        gloo.append(one_round(bench, "gloo_bench"))
    for size, goal in GOALS_US.items():
        rounds = [r[size] for r in ours]
        values = [r["value"] for r in rounds]
        bench.row("allreduce/" + size, "us", values, goal=goal, peer=median([r[size]["value"] for r in gloo]),
                  samples=sum(r["samples"] for r in rounds), min=min(r["min"] for r in rounds), p99=median([r["p99"] for r in rounds]))
