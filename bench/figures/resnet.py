"""ResNet-18 of the CIFAR-10 tutorial on the whole machine, global batch 128, fp32, as the tutorial is written: images a second.

Ours: two workers with 64 each, one thread each, data in memory. The peer: the same network and optimizer (Adam) in one Python process
with batch 128 and two threads. Rounds alternate. No row compares bests (channels_last, bf16): there is no recipe with them yet.

Checked: every timed run of two workers ends with the weights of one worker that held both shares.
"""
from figures.common import check, jsons, launch, median, peer_or_reason, weights_hash
from figures.training import together

MODEL, BATCH, FASTER = "cifar_resnet18", 128, 1.7


def peer(bench, warm_up, steps):
    out = launch([bench.python(), bench.peer("step_rate.py"), "resnet18", "--warmup", str(warm_up), "--steps", str(steps)],
                 env=bench.peer_env(OMP_NUM_THREADS="2"))
    return jsons(out)[-1]["images_per_s_rank"]


def measure(bench):
    warm_up, steps = (1, 2) if bench.quick else (2, 6)
    expected = weights_hash(together(bench, MODEL, warm_up, steps, workers=1))
    rates, peers, why = [], [], ""
    for _ in range(1 if bench.quick else 2):
        bench.idle()
        out = together(bench, MODEL, warm_up, steps)
        check(weights_hash(out) == expected, "resnet: two workers and one with both shares give other weights")
        rates.append(jsons(out)[0]["steps_per_s"] * BATCH)
        if not why:
            rate, why = peer_or_reason(lambda: peer(bench, warm_up, steps))
            peers += [rate] if rate else []
    peer_rate = median(peers) if peers else None
    bench.row("resnet/cifar_fp32", "1/s", rates, goal=FASTER * peer_rate if peers else None, peer=peer_rate, less_is_better=False,
              why_no_peer=why, note=f"goal: {FASTER} times the peer, which has 2 threads in one process")
