"""What a step costs that does more than one backward of one batch; two workers.

steps/carried: the time of a step of a recurrent language model whose hidden state is carried from step to step, over that of the same
loop with that state kept in the process, which is exact only where nobody dies.
steps/updates: the time of a GAN's step of two updates, over that of the same two updates as steps of their own.
A round is A B B A (every other: B A A B).

Checked: every run of a form, and one worker with both shares, end with the same weights; of steps/carried those of both forms.
"""
from figures.common import check, interval, jsons, launch, median, weights_hash

ROUNDS = ("ABBA", "BAAB", "ABBA", "BAAB")


class Figure:
    """`forms`: the program's words for A and B; `same`: both end with the same weights."""

    def __init__(self, bench, name, program, forms, steps, same):
        self.bench, self.name, self.program, self.steps = bench, name, program, steps
        self.forms = dict(zip("AB", forms))
        weights = {side: self.run(side, workers=1)[1] for side in "AB"}
        check(not same or weights["A"] == weights["B"], f"{name}: the two forms end with other weights")
        self.expected = weights

    def run(self, side, workers=2):
        program = self.bench.program(self.program)
        out = launch(self.bench.run(workers, program, self.forms[side], "10", str(self.steps), self.bench.path("steps-run")))
        return jsons(out)[0]["ms"], weights_hash(out)

    def measure(self, goal):
        ratios, times = [], []
        for order in ROUNDS[:2] if self.bench.quick else ROUNDS:
            self.bench.idle()
            taken = {"A": 0.0, "B": 0.0}
            for side in order:
                ms, weights = self.run(side)
                check(weights == self.expected[side], f"{self.name}: a run ({self.forms[side]}) ended with other weights than one worker's")
                taken[side] += ms
                if side == "A":
                    times.append(ms)
            ratios.append(taken["A"] / taken["B"])
        self.bench.row(self.name, "x", ratios, goal=goal, note=f"of {median(times):.1f} ms a step", **interval(ratios))


def measure(bench):
    Figure(bench, "steps/carried", "carried_rate", ("carried", "kept"), 60 if bench.quick else 250, same=True).measure(goal=1.05)
    Figure(bench, "steps/updates", "gan_rate", ("together", "alone"), 300 if bench.quick else 1500, same=False).measure(goal=1.03)
