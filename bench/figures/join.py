"""A replacement joins three workers that train ResNet-18 with Adam (134 MB of state): how long survivors stand still.

Per death the largest over survivors of the time spent in copying state for the newcomer and in waiting for its join.
Checked first: as in recovery.
"""
from figures.recovery import kill_runs


def measure(bench):
    kills, steps = (4, 60) if bench.quick else (30, 150)
    bench.idle()

    def program(output):
        return [bench.program("step_rate"), "resnet18", "0", str(steps), "3", output]

    deaths = kill_runs(bench, "join", program, steps - 20, kills, 10, 200)
    joined = [death for death in deaths if death["stall"] is not None]
    bench.row("join/stall", "ms", [death["stall"] for death in joined], goal=20, why_no_peer="torchrun restarts all workers instead")
    bench.row("join/joined", "ms", [death["joined"] for death in joined])
