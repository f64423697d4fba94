"""The launcher itself while three workers train the ConvNet: its resident memory, and how long its workers outlive its SIGKILL.

all_gone: from the signal until the kernel says that the last of the launcher's children (workers and the process that they are forked
from) is gone. The peer: torchrun's own resident memory; its workers go on without it (it kills none), so all_gone has no peer.

Checked: the workers train (a step is in the run directory's ledger) before anything is measured.
"""
import os
import select
import subprocess
import time

from figures.common import check, median, peer_or_reason

WORKERS, GOAL_MB, GOAL_GONE_MS = 3, 10, 100


def resident_mb(pid):
    line = next(line for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def children(pid):
    return [int(child) for child in open(f"/proc/{pid}/task/{pid}/children").read().split()]


def wait_for(condition, what, limit_s=60):
    end = time.monotonic() + limit_s
    while not condition():
        check(time.monotonic() < end, f"launcher: no {what} within {limit_s} s")
        time.sleep(0.05)


def kill_one(bench, output):
    """(resident MB, ms from SIGKILL until all are gone)."""
    command = bench.run(WORKERS, bench.convnet, "--epochs", "10", "--data", bench.data(), "--resume", "never", "--output", output)
    launcher = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        ledger = output + "/ledger.jsonl"
        wait_for(lambda: os.path.exists(ledger) and os.path.getsize(ledger) > 0, "committed step")
        memory, alive = resident_mb(launcher.pid), [os.pidfd_open(pid) for pid in children(launcher.pid)]
        check(len(alive) == WORKERS + 1, f"launcher: {len(alive)} children, expected {WORKERS} workers and the process they are forked from")
        begin = time.monotonic()
    finally:
        launcher.kill()
        launcher.wait()
    poller = select.poll()
    for fd in alive:
        poller.register(fd, select.POLLIN)
    while alive:
        gone = [fd for fd, _ in poller.poll(10_000)]
        check(gone, f"launcher: {len(alive)} processes live on 10 s after its SIGKILL")
        for fd in gone:
            poller.unregister(fd)
            os.close(fd)
            alive.remove(fd)
    return memory, (time.monotonic() - begin) * 1000


def peer_memory(bench):
    process = subprocess.Popen(bench.torchrun(WORKERS, "--no-python", "sleep", "2"), env={**os.environ, **bench.peer_env()},
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: process.poll() is not None or len(children(process.pid)) >= WORKERS, "worker of torchrun's")
        return resident_mb(process.pid)
    finally:
        process.wait()


def measure(bench):
    runs = []
    for i in range(3 if bench.quick else 20):
        bench.idle()
        runs.append(kill_one(bench, bench.path(f"launcher-run-{i}")))
    peer, why = peer_or_reason(lambda: peer_memory(bench))
    bench.row("launcher/memory", "MB", [memory for memory, _ in runs], goal=GOAL_MB, peer=peer, why_no_peer=why)
    gone = [took for _, took in runs]
    bench.row("launcher/all_gone", "ms", gone, value=max(gone), goal=GOAL_GONE_MS, why_no_peer="torchrun's workers train on",
              note=f"value: the longest; median {median(gone):.1f} ms")
