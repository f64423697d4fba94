"""Step rate of two workers over that of two processes that do not communicate, one thread each (same model, loop, threads and
allocator settings, the step in plain libtorch); against the same ratio of stock
PyTorch DDP over Gloo. Data are in memory, batches and models the peers'.

Checked first: two workers give the weights of one worker that holds both shares, to the last bit; and, where Python is at hand, the
last step's loss is Python's to five decimals. Rounds are interleaved: ours, side by side, DDP, Python side by side.
"""
from figures.common import check, jsons, launch, median, peer_or_reason, weights_hash

# steps of a round, warm-up, least ratio asked for
MODELS = {"convnet": (60, 5, 0.97), "wide_mlp": (120, 10, 0.92), "tiny_mlp": (2000, 100, 0.90)}


def together(bench, model, warm_up, steps, workers=2):
    return launch(bench.run(workers, bench.program("step_rate"), model, str(warm_up), str(steps), "2", bench.path("training-run")))


def side_by_side(bench, model, warm_up, steps):
    return jsons(launch([bench.program("step_rate"), model, str(warm_up), str(steps), "2", "none"]))[0]


def peer(bench, model, warm_up, steps, *flags):
    out = launch(bench.torchrun(2, bench.peer("step_rate.py"), model, "--warmup", str(warm_up), "--steps", str(steps), *flags), env=bench.peer_env())
    return jsons(out)[-1]


def measure(bench):
    for model, (steps, warm_up, goal) in MODELS.items():
        check(weights_hash(together(bench, model, 3, 20)) == weights_hash(together(bench, model, 3, 20, workers=1)),
              f"training/{model}: two workers and one with both shares give other weights")
        ratios, rates, peers, peer_rates, why = [], [], [], [], ""
        for _ in range(2 if bench.quick else 7):
            bench.idle()
            ours = jsons(together(bench, model, warm_up, steps))[0]
            apart = side_by_side(bench, model, warm_up, steps)
            ratios.append(ours["steps_per_s"] / apart["steps_per_s"])
            rates.append(ours["images_per_s_rank"])
            if why or len(peers) == 5:
                continue
            pair, why = peer_or_reason(lambda: [peer(bench, model, warm_up, steps), peer(bench, model, warm_up, steps, "--no-ddp")])
            if pair:
                check(abs(pair[0]["loss"] - ours["loss"]) < 2e-5, f"training/{model}: last loss {ours['loss']}, Python's {pair[0]['loss']}")
                peers.append(pair[0]["steps_per_s"] / pair[1]["steps_per_s"])
                peer_rates.append(pair[0]["images_per_s_rank"])
        bench.row("training/" + model, "ratio", ratios, goal=goal, peer=median(peers) if peers else None, less_is_better=False, why_no_peer=why)
        bench.row("training/" + model + "_rate", "img/s", rates, peer=median(peer_rates) if peers else None, less_is_better=False, why_no_peer=why,
                  note="per worker")
