"""Sum over two processes on one host: Lockstep's shared-memory exchange against the Gloo of the same torch wheel.

Each sample is the slower process's time; data are written anew before it. SIZE: until the whole sum is there for this process (the
trainer's optimizer reads it where it lies; Gloo's is in the tensor). SIZE/read: until this process has read every byte of it, too.
Gloo has its best setting of four, size by size, in each round. Both programs verify sums of a closed form, the last timed one
included. Rounds alternate. value: the median of the rounds' medians; min: the least of all.
"""
import json

from figures.common import digits, launch, median

GOALS_US = {"4B": 3, "64KB": 10, "1MB": 50, "25MB": 1700, "44.7MB": 3000}


def one_round(bench, program):
    path = bench.path(program + ".json")
    launch([bench.program(program), "--json", path])
    return {row["name"].split("/")[1]: row for row in json.load(open(path))}


def measure(bench):
    ours, gloo = [], []
    for i in range(1 if bench.quick else 6):
        bench.idle()
        for program, rounds in [("exchange_bench", ours), ("gloo_bench", gloo)][::1 if i % 2 == 0 else -1]:
            rounds.append(one_round(bench, program))
    for size, goal in GOALS_US.items():
        own, peer = [r[size] for r in ours], [r[size] for r in gloo]
        settings = sorted({r["setting"] for r in peer})
        bench.row("allreduce/" + size, "us", [r["value"] for r in own], goal=goal, peer=median([r["value"] for r in peer]),
                  samples=sum(r["samples"] for r in own), min=min(r["min"] for r in own), p99=median([r["p99"] for r in own]),
                  peer_min=digits(min(r["min"] for r in peer)), note="Gloo's best: " + "; ".join(settings))
        bench.row(f"allreduce/{size}/read", "us", [r["read"] for r in own], peer=median([r["read"] for r in peer]))
