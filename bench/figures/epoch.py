"""One epoch of the ConvNet on MNIST on the whole machine, from the command to its end, start included: seconds.

Ours: one worker a core, batch 100 each; it also evaluates on the test set and writes its run directory. The peer: the same training in
Python, without evaluation, as one process with a thread a core and as DDP with a rank a core; the faster of the two medians counts.

Checked: every run of ours ends with the same weights and, on one or two cores, with those of Python's DDP.
"""
import os
import time

from figures.accuracy import SEEDED
from figures.common import check, jsons, launch, median, peer_or_reason, weights_hash

CORES = len(os.sched_getaffinity(0))


def timed(command, env=None):
    begin = time.monotonic()
    out = launch(command, env=env)
    return time.monotonic() - begin, out


def own(bench, extra):
    seconds, out = timed(bench.run(CORES, bench.convnet, "--epochs", "1", "--data", bench.data(), "--resume", "never",
                                   "--output", bench.path("epoch-run"), *extra))
    return seconds, weights_hash(out)


def peer(bench, ranks, extra):
    script = [SEEDED, "0", bench.peer("mnist_ddp.py"), *extra]  # leaves without Gloo's teardown, which may abort
    command = bench.torchrun(ranks, *script) if ranks > 1 else [bench.python(), *script]
    seconds, out = timed(command, bench.peer_env(PEER_DATA=bench.peer_data(), OMP_NUM_THREADS="1" if ranks > 1 else str(CORES)))
    return seconds, jsons(out)[-1]["sha256"]


def quick(ranks):
    """As many pictures whatever the number of ranks."""
    return ["--max-steps", str(60 * CORES // ranks)]


def measure(bench):
    times, hashes, peers, why = [], set(), {1: [], CORES: []}, ""
    for _ in range(1 if bench.quick else 2):
        bench.idle()
        seconds, weights = own(bench, quick(CORES) if bench.quick else [])
        times.append(seconds)
        hashes.add(weights)
        for ranks in [] if why else peers:
            told, why = peer_or_reason(lambda: peer(bench, ranks, quick(ranks) if bench.quick else []))
            peers[ranks] += [told[0]] if told else []
            if told and ranks == CORES <= 2:  # of more, the sum is Gloo's and not the tree's
                hashes.add(told[1])
    check(len(hashes) == 1, f"epoch: runs ended with {len(hashes)} different weights")
    medians = {ranks: median(values) for ranks, values in peers.items() if values}
    bench.row("epoch/convnet", "s", times, goal=None if bench.quick else 9.5, peer=min(medians.values(), default=None), why_no_peer=why,
              note="peer: " + ", ".join(f"{ranks} process(es) {seconds:.1f} s" for ranks, seconds in medians.items()))
