"""Accuracy on MNIST's test set after one epoch of Adam at 1e-3, two workers, seeds 0 to 2: by how many points ours differs from that of the
same training in stock PyTorch DDP on two ranks, at most. The ConvNet of tutorial 002 (batch 100 each), the MLP of tutorial 000 (batch 32).

Checked: the ConvNet's weights are those of Python, to the last bit. (The MLPs' parameters have other names in the peer, and so another hash.)
"""
import json
import os

from figures.common import ROOT, check, jsons, launch, peer_or_reason, weights_hash

SEEDS = (0, 1, 2)
SEEDED = os.path.join(ROOT, "bench/peers/seeded.py")


def peer(bench, seed, *options):
    script = [SEEDED, str(seed), bench.peer("mnist_ddp.py"), "--evaluate", "--optimizer", "adam", *options]
    return jsons(launch(bench.torchrun(2, *script), env=bench.peer_env(PEER_DATA=bench.peer_data())))[-1]


def convnet(bench, seed):
    folder = bench.path(f"accuracy-convnet-{seed}")
    out = launch(bench.run(2, bench.convnet, "--epochs", "1", "--data", bench.data(), "--seed", str(seed), "--optimizer", "adam", "--lr", "1e-3",
                           "--shuffle", "reshuffle", "--output", folder))
    ends = [json.loads(line) for line in open(folder + "/metrics.jsonl") if '"test_accuracy"' in line]
    theirs = peer(bench, seed)
    check(weights_hash(out) == theirs["sha256"], f"accuracy/convnet: seed {seed}: other weights than Python's")
    return ends[-1]["test_accuracy"], theirs["accuracy"]


def mlp(bench, seed):
    folder = bench.path(f"accuracy-mlp-{seed}")
    launch(bench.run(2, bench.build + "/recipes/classifier/mnist_torchrun", "--epochs", "1", "--data", bench.data(), "--seed", str(seed),
                     "--output", folder, "--checkpoint-file", folder + ".pt"))
    ours = launch([bench.python(), os.path.join(ROOT, "bench/peers/mlp_accuracy.py"), folder + ".pt", bench.peer_data()])
    return float(ours), peer(bench, seed, "--net", "mlp", "--batch", "32")["accuracy"]


def measure(bench):
    for name, pair in (("convnet", convnet), ("mlp", mlp)):
        pairs, why = [], ""
        for seed in SEEDS[:1] if bench.quick else SEEDS:
            bench.idle()
            found, why = peer_or_reason(lambda: pair(bench, seed))
            pairs += [found] if found else []
        if why:
            print(f"accuracy/{name}: not taken: {why}")
            continue
        note = "; ".join(f"{100 * ours:.2f} beside {100 * theirs:.2f}" for ours, theirs in pairs)
        bench.row(f"accuracy/{name}", "points", [100 * abs(ours - theirs) for ours, theirs in pairs],
                  value=max(100 * abs(ours - theirs) for ours, theirs in pairs), goal=0.3, note=note)
