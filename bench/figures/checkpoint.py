"""A checkpoint of ResNet-18 with Adam (134 MB): stall of the training, from its begin until written and synced, loaded into the live tensors.

micro/checkpoint_bench and its counterpart peers/checkpoint.py, in turn. The peers: stall, dcp.async_save until it returns (a stager
kept over all saves fails in torch 2.11 at the second); written, torch.save and fsync; loaded, torch.load with mmap into model and optimizer. Goals: 1.3 times a plain copy of as many bytes in the
same round; 2.5 times the peer's rate; 20 ms. Both programs save other values each round, load them into other tensors and compare.
"""
import json
import os

from figures.common import HERE, launch, median, peer_or_reason

STALL_OVER_COPY, FASTER, LOADED_MS = 1.3, 2.5, 20


def peer(bench, repeats):
    bench.peer("models.py")
    out = launch([bench.python(), os.path.join(HERE, "peers", "checkpoint.py"), bench.scratch, str(repeats)], env=bench.peer_env())
    return json.loads(out.splitlines()[-1])


def measure(bench):
    repeats = 3 if bench.quick else 7
    ours, peers, why = [], [], ""
    for _ in range(1 if bench.quick else 3):
        bench.idle()
        ours.append(json.loads(launch([bench.program("checkpoint_bench"), bench.scratch, str(repeats)])))
        if not why:
            told, why = peer_or_reason(lambda: peer(bench, repeats))
            peers += [told] if told else []

    def of(name):
        return median([told[name] for told in peers]) if peers else None

    copy, saved = median([told["copy_ms"] for told in ours]), of("save_synced")
    known = {"why_no_peer": why, "samples": repeats * len(ours)}
    bench.row("checkpoint/stall", "ms", [told["stall_ms"] for told in ours], goal=round(STALL_OVER_COPY * copy, 1), peer=of("async_stall"),
              note=f"a plain copy: {copy:.1f} ms", **known)
    bench.row("checkpoint/written", "ms", [told["written_synced_ms"] for told in ours], goal=round(saved / FASTER, 1) if saved else None,
              peer=saved, **known)
    bench.row("checkpoint/loaded", "ms", [told["loaded_ms"] for told in ours], goal=LOADED_MS, peer=of("load"), **known)
