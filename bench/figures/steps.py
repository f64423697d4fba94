"""What a step costs that does more than one backward of one batch.

steps/carried: the time of a step of a recurrent language model whose hidden state is carried from step to step, over that of the same
loop with that state kept in the process, which is exact only where nobody dies; two workers. A round is A B B A (every other: B A A B).

Checked: every run of both, and one worker with both shares, end with the same weights.
"""
from figures.common import check, interval, jsons, launch, median, weights_hash

ROUNDS = ("ABBA", "BAAB", "ABBA", "BAAB")
HOW = {"A": "carried", "B": "kept"}


def run(bench, how, steps, workers=2):
    out = launch(bench.run(workers, bench.program("carried_rate"), how, "10", str(steps), bench.path("steps-run")))
    return jsons(out)[0]["ms"], weights_hash(out)


def measure(bench):
    steps, ratios, times = 60 if bench.quick else 250, [], []
    expected = run(bench, "carried", steps, workers=1)[1]
    for order in ROUNDS[:2] if bench.quick else ROUNDS:
        bench.idle()
        taken = {"A": 0.0, "B": 0.0}
        for side in order:
            ms, weights = run(bench, HOW[side], steps)
            check(weights == expected, f"steps/carried: a run ({HOW[side]}) ended with other weights than one worker's")
            taken[side] += ms
            if side == "A":
                times.append(ms)
        ratios.append(taken["A"] / taken["B"])
    bench.row("steps/carried", "x", ratios, goal=1.05, note=f"of {median(times):.1f} ms a step", **interval(ratios))
