"""Start: command to the first allreduce, on three workers, and the launcher's own part.

first_allreduce: from just before the launcher's exec until the first sum is whole in every worker, seen in the run's shared
memory. Ours does more in that time than the peer: it reads the training set, makes the ConvNet and computes forward and backward
of the first batch; the peer reduces one number. launcher: from just before its exec until `main` runs in a plain program.
"""
import subprocess
import time

from figures.common import check, launch, median, peer_or_reason, weights_hash

WORKERS = 3


def own_first_allreduce(bench):
    log = bench.path("start.log")
    out = launch([bench.program("start_driver"), "--log", log, str(WORKERS), "--",
                  *bench.run(WORKERS, bench.convnet, "--epochs", "1", "--max-steps", "1", "--resume", "never", "--output", bench.path("start-run"))])
    weights_hash(open(log).read())  # it did take the step
    return float(out) / 1000


def peer_first_allreduce(bench):
    out = launch(bench.torchrun(WORKERS, bench.peer("launch_probe.py"), "init"), env=bench.peer_env())
    stamps = [dict(word.split("=") for word in line.split()[2:]) for line in out.splitlines() if line.startswith("STAMP ")]
    check(len(stamps) == WORKERS, "launch_probe.py printed no stamps: " + out[-400:])
    return max(float(stamp["allreduce"]) for stamp in stamps)


def to_main(command, env=None):
    begin = time.monotonic_ns()
    out = launch(command, env=env)
    stamps = [int(line) for line in out.splitlines() if line.isdigit()]
    check(len(stamps) == 1, "the plain program printed no stamp: " + out[-400:])
    return (stamps[0] - begin) / 1e6


def measure(bench):
    rounds = 3 if bench.quick else 12
    own_first_allreduce(bench)  # draws the digits where that has not been done
    first, launcher, bare, peer_first, peer_launcher, why = [], [], [], [], [], ""
    for _ in range(rounds):
        bench.idle()
        first.append(own_first_allreduce(bench))
        for _ in range(3):
            launcher.append(to_main(bench.run(1, bench.program("stamp"))))
            bare.append(to_main([bench.program("stamp")]))
        if len(peer_first) < 5 and not why:
            seconds, why = peer_or_reason(lambda: peer_first_allreduce(bench))
            peer_first += [seconds] if seconds else []
            stamped, _ = peer_or_reason(lambda: to_main(bench.torchrun(1, "--no-python", bench.program("stamp")), bench.peer_env()))
            peer_launcher += [stamped] if stamped else []
    bench.row("start/first_allreduce", "s", first, goal=0.45, peer=median(peer_first) if peer_first else None, why_no_peer=why)
    bench.row("start/launcher", "ms", launcher, goal=20, peer=median(peer_launcher) if peer_launcher else None, why_no_peer=why,
              note=f"the same program without a launcher: {median(bare):.2f} ms")
