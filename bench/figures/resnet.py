"""ResNet-18 of the CIFAR-10 tutorial on the whole machine, global batch 128: images a second.

Ours: two workers with 64 each, one thread each, data in memory. The peer: the same network and optimizer (Adam) in one Python process
with batch 128 and two threads. Rounds alternate.

cifar_fp32: the peer as the tutorial is written (contiguous), ours with --memory-format channels_last; cifar_fp32_contiguous: both
contiguous; cifar_fp32_best, cifar_bf16_best: both in channels_last, the latter under autocast.

cifar_bf16_best is left out where the CPU has no bf16 instructions: emulated, a step takes minutes, on both sides.

Checked: every timed run of two workers ends with the weights of one worker that held both shares. Its loss is not the peer's: batch
norm sees 64 pictures here and 128 there; at equal shares the golden tests of recipes/cifar_cluster hold it to Python's bits.
"""
from figures.common import check, jsons, launch, median, peer_or_reason, weights_hash
from figures.training import together

MODEL, BATCH = "cifar_resnet18", 128
LAST, BF16 = "+channels_last", "+bf16"
# row: our settings, the peer's flags, how many times the peer's rate is asked for
ROWS = {"cifar_fp32": (LAST, (), 1.7), "cifar_fp32_contiguous": ("", (), None), "cifar_fp32_best": (LAST, ("--channels-last",), 1.1),
        "cifar_bf16_best": (LAST + BF16, ("--channels-last", "--bf16"), 1.15)}


def peer(bench, warm_up, steps, flags):
    out = launch([bench.python(), bench.peer("step_rate.py"), "resnet18", "--warmup", str(warm_up), "--steps", str(steps), *flags],
                 env=bench.peer_env(OMP_NUM_THREADS="2"))
    return jsons(out)[-1]["images_per_s_rank"]


class Sides:
    """Each setting of each side is timed once a round, whatever number of rows has it."""

    def __init__(self, bench, rows):
        self.rows = rows
        self.bench, self.rates, self.peers, self.why = bench, {}, {}, ""
        self.warm_up, self.steps = (1, 2) if bench.quick else (2, 6)
        self.expected = {s: weights_hash(together(bench, MODEL + s, self.warm_up, self.steps, workers=1)) for s, _, _ in rows.values()}

    def one_round(self):
        for settings in self.expected:
            out = together(self.bench, MODEL + settings, self.warm_up, self.steps)
            check(weights_hash(out) == self.expected[settings], f"resnet{settings}: two workers and one with both shares give other weights")
            self.rates.setdefault(settings, []).append(jsons(out)[0]["steps_per_s"] * BATCH)
        for flags in dict.fromkeys(flags for _, flags, _ in self.rows.values()):
            if not self.why:
                rate, self.why = peer_or_reason(lambda: peer(self.bench, self.warm_up, self.steps, flags))
                self.peers.setdefault(flags, []).extend([rate] if rate else [])


def measure(bench):
    rows = ROWS
    if "bf16" not in bench.machine:
        rows = {name: row for name, row in ROWS.items() if BF16 not in row[0]}
        print("  resnet/cifar_bf16_best: not here, the CPU has no bf16 instructions")
    sides = Sides(bench, rows)
    for _ in range(1 if bench.quick else 3):
        bench.idle()
        sides.one_round()
    for name, (settings, flags, faster) in rows.items():
        peers = sides.peers.get(flags)
        peer_rate = median(peers) if peers else None
        bench.row("resnet/" + name, "1/s", sides.rates[settings], goal=faster * peer_rate if faster and peer_rate else None, peer=peer_rate,
                  less_is_better=False, why_no_peer=sides.why, note=f"goal: {faster} times the peer" if faster else "")
