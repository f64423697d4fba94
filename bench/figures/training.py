"""Step rate of two workers over that of two processes that do not communicate, one thread each (same model, loop, threads and
allocator settings, the step in plain libtorch); against the same ratio of stock PyTorch DDP over Gloo. Data are in memory, batches
and models the peers'; sample ids are drawn and recorded as in any training.

A round is A B B A of about 4 s each (A: ours, B: apart; every other round B A A B), so that a machine that changes its speed evenly
changes no ratio. low, high: the middle 95 % of the ratios' medians (bootstrap over rounds). A pair of the peer's follows the first
three rounds.

Checked: every timed run of two workers ends with the weights of one worker that held both shares; where Python is at hand, the last
step's loss is Python's to five decimals.
"""
import os

from figures.common import check, interval, jsons, launch, median, peer_or_reason, weights_hash

# steps of ours, of the peer, warm-up, least ratio asked for
MODELS = {"convnet": (165, 115, 5, 0.97), "wide_mlp": (135, 75, 5, 0.92), "tiny_mlp": (10500, 1600, 100, 0.90)}
ROUNDS = ("ABBA", "BAAB", "ABBA", "BAAB")


def together(bench, model, warm_up, steps, workers=2):
    return launch(bench.run(workers, bench.program("step_rate"), model, str(warm_up), str(steps), "2", bench.path("training-run")))


def side_by_side(bench, model, warm_up, steps):
    heap = os.environ.get("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")  # as the launcher sets it
    return jsons(launch([bench.program("step_rate"), model, str(warm_up), str(steps), "2", "none"], env={"GLIBC_TUNABLES": heap}))[0]


def peer(bench, model, warm_up, steps, *flags):
    out = launch(bench.torchrun(2, bench.peer("step_rate.py"), model, "--warmup", str(warm_up), "--steps", str(steps), *flags), env=bench.peer_env())
    return jsons(out)[-1]


def one_round(bench, model, order, warm_up, steps, expected):
    """Ratio of step rates, and images a second of one of our workers."""
    seconds, rates = {"A": 0.0, "B": 0.0}, []
    for side in order:
        if side == "A":
            out = together(bench, model, warm_up, steps)
            check(weights_hash(out) == expected, f"training/{model}: two workers and one with both shares give other weights")
            told = jsons(out)[0]
            rates.append(told["images_per_s_rank"])
        else:
            told = side_by_side(bench, model, warm_up, steps)
        seconds[side] += steps / told["steps_per_s"]
    return seconds["B"] / seconds["A"], median(rates)


def peer_round(bench, model, order, warm_up, steps, loss):
    told = {flags: peer(bench, model, warm_up, steps, *flags) for flags in [(), ("--no-ddp",)][::1 if order[0] == "A" else -1]}
    ddp = told[()]
    check(abs(ddp["loss"] - loss) < 2e-5, f"training/{model}: last loss {loss}, Python's {ddp['loss']}")
    return ddp["steps_per_s"] / told[("--no-ddp",)]["steps_per_s"], ddp["images_per_s_rank"]


def measure(bench):
    for model, (steps, peer_steps, warm_up, goal) in MODELS.items():
        if bench.quick:
            steps, peer_steps = steps // 10, peer_steps // 10
        expected = weights_hash(together(bench, model, warm_up, steps, workers=1))
        loss = jsons(together(bench, model, warm_up, peer_steps))[0]["loss"]
        rounds, peers, why = [], [], ""
        for order in ROUNDS[:2 if bench.quick else None]:
            bench.idle()
            rounds.append(one_round(bench, model, order, warm_up, steps, expected))
            if not why and len(peers) < 3:
                told, why = peer_or_reason(lambda: peer_round(bench, model, order, warm_up, peer_steps, loss))
                peers += [told] if told else []
        known = {"less_is_better": False, "why_no_peer": why}
        ratios, rates = [ratio for ratio, _ in rounds], [rate for _, rate in rounds]
        bench.row("training/" + model, "ratio", ratios, goal=goal, peer=median([ratio for ratio, _ in peers]) if peers else None,
                  **interval(ratios), **known)
        bench.row(f"training/{model}_rate", "img/s", rates, peer=median([rate for _, rate in peers]) if peers else None, note="per worker",
                  **interval(rates), **known)
