"""A replacement joins three workers that train ResNet-18 with Adam (134 MB of state): how long survivors stand still.

Two workers book two things: the table's last member copies the state for the newcomer (copy), its first one waits at the end of that
transaction for the newcomer to be ready (wait). The others book nothing and wait for both, in the sum. So:

stall       per death copy + wait, the most that any survivor stood still; its parts are the rows copy and wait
own_stall   per death the largest of one worker's own copy + wait
first_step_excess   the newcomer's first step with a share of its own beyond the median step of the run: its cold forward and
            backward, which survivors wait for too

Checked first: as in recovery.
"""
from figures.common import check, median
from figures.recovery import kill_runs


def measure(bench):
    kills, steps = (4, 60) if bench.quick else (30, 150)
    bench.idle()

    def program(output):
        return [bench.program("step_rate"), "resnet18", "0", str(steps), "3", output]

    deaths = kill_runs(bench, "join", program, steps - 20, kills, 10, 200)
    joined = [death for death in deaths if death["first_step"]]
    check(joined, "join: no replacement came to a step of its own")
    bench.row("join/stall", "ms", [death["stall"] for death in joined], goal=20, why_no_peer="torchrun restarts all workers instead",
              note="copy + wait")
    for part in ("copy", "wait", "own_stall", "joined"):
        bench.row("join/" + part, "ms", [death[part] for death in joined])
    bench.row("join/first_step_excess", "ms", [death["first_step"] - death["median_step"] for death in joined],
              note=f"median step: {median([death['median_step'] for death in joined]):.1f} ms")
