"""A plain script on two nodes, both on this machine: until it has met, and until it runs again after a death.

first_allreduce: from just before the first launcher's exec until both workers have their first sum, without what the script itself
took to import torch (the slower of the two). worker_dies: from a worker's exit until the first line of the last process of the next
attempt. node_dies: a launcher gets SIGKILL and is started again at once; from the signal until the same. The peer is torchrun with
the c10d rendezvous and --monitor-interval 0.1; how it ends after a restart is not looked at (its store keeps the last attempt's keys).

Checked: every worker's first sum is the right one, and our launchers end with 0.
"""
import os
import shutil
import signal
import socket
import subprocess
import time

from figures.common import ROOT, Missing, check, median, peer_or_reason

GOAL_S = 1.0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def moments(folder, attempt, name, wait_s=0):
    """Of both ranks; within wait_s."""
    end, found = time.monotonic() + wait_s, {}
    while True:
        for rank in (0, 1):
            path = f"{folder}/{rank}.{attempt}"
            if os.path.exists(path):
                found.update({rank: float(line.split()[1]) for line in open(path) if line.startswith(name + " ")})
        if len(found) == 2 or time.monotonic() > end:
            check(len(found) == 2, f"nodes: '{name}' of attempt {attempt} came from ranks {sorted(found)} alone")
            return found
        time.sleep(0.01)


class Side:
    """Ours, or torchrun."""

    def __init__(self, bench, ours):
        self.bench, self.ours, self.runs = bench, ours, 0
        self.script = os.path.join(ROOT, "bench/peers/on_nodes.py")

    def launcher(self, node, port, folder, restarts):
        options = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}",
                   "--rdzv-id", "bench", "--max-restarts", str(restarts), "--node-rank", str(node)]
        if self.ours:
            command = [self.bench.lockstep, "run", *options, self.script, folder]
        else:
            command = [self.bench.python(), "-m", "torch.distributed.run", *options, "--monitor-interval", "0.1", self.script, folder]
        return subprocess.Popen(command, env={**os.environ, **self.bench.peer_env(), "PYTHON_EXEC": self.bench.python()},
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def begin(self, what, restarts):
        self.runs += 1
        folder = self.bench.path(f"nodes-{'ours' if self.ours else 'peer'}-{self.runs}")
        os.mkdir(folder)
        if what:
            open(f"{folder}/{what}", "w").close()
        port = free_port()
        self.bench.idle()
        start = time.time()
        return folder, port, start, [self.launcher(node, port, folder, restarts) for node in (0, 1)]

    def end(self, launchers, folder):
        try:
            for launcher in launchers if self.ours else ():
                _, errors = launcher.communicate(timeout=120)
                check(launcher.returncode == 0, f"nodes: a launcher ended with {launcher.returncode}: {errors[-600:]}")
        finally:
            for launcher in launchers:
                launcher.terminate()
            for launcher in launchers:
                try:
                    launcher.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    launcher.kill()
                    launcher.wait()
            shutil.rmtree(folder)

    def tries(self, name):
        try:
            return getattr(self, name)()
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            raise Missing(f"torchrun does not go on: {str(error)[:200]}") from error

    def first_allreduce(self):
        folder, _, start, launchers = self.begin("", 0)
        for launcher in launchers:
            launcher.wait(timeout=120)
        begun, imported, summed = (moments(folder, 0, name) for name in ("begin", "imported", "summed"))
        self.end(launchers, folder)
        return max(summed.values()) - start - max(imported[rank] - begun[rank] for rank in (0, 1))

    def worker_dies(self):
        folder, _, _, launchers = self.begin("die", 1)
        try:
            begun = moments(folder, 1, "begin", 120)
            last = next(f"{folder}/{rank}.0" for rank in (0, 1) if "dies " in open(f"{folder}/{rank}.0").read())
            dies = next(float(line.split()[1]) for line in open(last) if line.startswith("dies "))
        finally:
            self.end(launchers, folder)
        return max(begun.values()) - dies

    def node_dies(self):
        folder, port, _, launchers = self.begin("wait", 1)
        try:
            moments(folder, 0, "summed", 120)
            dies = time.time()
            launchers[1].send_signal(signal.SIGKILL)
            launchers[1].wait()
            launchers[1] = self.launcher(1, port, folder, 1)
            begun = moments(folder, 1, "begin", 120)
        finally:
            self.end(launchers, folder)
        return max(begun.values()) - dies


def measure(bench):
    ours, peers = Side(bench, True), Side(bench, False)
    rounds = 3 if bench.quick else 9
    for name in ("first_allreduce", "worker_dies", "node_dies"):
        samples, theirs, why = [], [], ""
        for _ in range(rounds):
            samples.append(getattr(ours, name)())
            if why:
                continue
            sample, why = peer_or_reason(lambda: peers.tries(name))
            theirs += [sample] if not why else []
        bench.row(f"nodes/{name}", "s", samples, goal=GOAL_S, peer=median(theirs) if theirs else None, why_no_peer=why)
