"""Training on hosts whose links carry 1 Gb/s each way: how long a step is over what it must take.

Hosts are machines made of namespaces on this one. `least`: what a step must take, its computing (two processes side by side that do not
communicate, on a core each, in plain libtorch) or its bytes on the wire, 2 (N - 1) / N of the gradients' at 0.957 Gb/s, whichever is
longer.

2/MODEL: two hosts of one core each; the time of a step over `least`. The peer: the same network and batch under Python's
DistributedDataParallel over Gloo on the same machines and cores, the faster of two settings (gradient_as_bucket_view off and on).
N/allreduce_44.7MB: gradients of ResNet-18 (62 tensors) that cost no computing: the bytes' time over what a step takes beyond one without
communication (the gradients are written, the optimizer takes them); with what the links use of a core for a GB that they send and
receive, on 2 and on 4 hosts. N/MODEL_slept: all is real but the computing, which is replaced
by a sleep of its measured length, as on hosts that have a core of their own; efficiency: the step of one host over that of N.

Checked: every run ends with the weights of one worker that held all shares; the peer's last loss is ours, to four decimals.
"""
import os
import subprocess

from figures.common import ROOT, check, jsons, launch, median, peer_or_reason
from figures.host_runs import PORT, WIRE, LIMIT_S, Run, alone, hosts, on_a_core

# warm-up, steps; resnet18: torchvision's on small pictures, batch 8; cifar_resnet18: the tutorial's, batch 64; vgg19: batch 8.
MODELS = {"cifar_resnet18": (1, 5), "resnet18": (3, 15), "vgg19": (1, 4)}
TABLE = {"cifar_resnet18": (1, 2, 4, 8), "vgg19": (1, 2, 4), "vgg19_quarter": (1, 2, 4, 8)}  # hosts
PICTURES = 50_000  # of CIFAR-10, for the epoch's time


def side_by_side(bench, model, warm_up, steps):
    """What one of two processes tells that compute on a core each."""
    return jsons(launch([bench.program("step_rate"), model, str(warm_up), str(steps), "2", "none"],
                        env={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "OMP_NUM_THREADS": "1"}))[0]


def wire_s(count, gradient_bytes):
    return 2 * (count - 1) / count * gradient_bytes / WIRE


def limited(count):
    bed = hosts.Bed(count)
    for machine in bed:
        machine.rate("1gbit")
    return bed


def link_seconds(machine):
    """CPU time of the link there."""
    total = 0
    for pid in machine.pids():
        with open(f"/proc/{pid}/stat") as stat:
            name, fields = stat.read().rsplit(")", 1)
        if name.split("(", 1)[1].startswith("lockstep-link"):
            total += sum(map(int, fields.split()[11:13]))
    return total / os.sysconf("SC_CLK_TCK")


class Timed:
    """A run on `count` machines: what it told, and each machine's CPU seconds of links for a GB, sent and received."""

    def __init__(self, bench, count, model, warm_up, steps, expected, pinned=False):
        with limited(count) as bed:
            run = Run(bench, bed, (1,) * count, model, steps, count, warm_up=warm_up, pinned=pinned)
            run.until(warm_up + 1)
            before = [(link_seconds(machine), sum(machine.bytes())) for machine in bed]
            run.until(warm_up + steps - 1)
            after = [(link_seconds(machine), sum(machine.bytes())) for machine in bed]
            told = run.end(expected)
        self.step_s = 1 / told["steps_per_s"]
        self.cpu_s_per_gb = max((b - a) / (more - less) * 1e9 for (a, less), (b, more) in zip(before, after)) if count > 1 else 0


def peer_step_s(bench, model, warm_up, steps, loss):
    """Python's, at its faster setting."""
    found = []
    for view in ("copied", "view"):
        with limited(2) as bed:
            bench.idle()
            jobs = [machine.start(*on_a_core(machine, bench.python(), ROOT + "/bench/peers/hosts_rate.py", model, str(warm_up), str(steps), view),
                                  env=bench.peer_env(RANK=str(machine.index - 1), WORLD_SIZE="2", MASTER_ADDR=bed[1].address,
                                                     MASTER_PORT=str(PORT), GLOO_SOCKET_IFNAME="eth0"),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for machine in bed]
            outs = [job.communicate(timeout=LIMIT_S * 3) for job in jobs]
            check(all(job.returncode == 0 for job in jobs), f"hosts: Python's DDP ended with {[job.returncode for job in jobs]}: {outs[0][1][-600:]}")
        told = jsons(outs[0][0])[0]
        check(abs(told["loss"] - loss) < 2e-4, f"hosts/{model}: the last loss is {loss}, Python's {told['loss']}")
        found.append(1 / told["steps_per_s"])
    return min(found)


def rounds(bench):
    return range(1 if bench.quick else 3)


def two_hosts(bench, computing):
    for model, (warm_up, steps) in MODELS.items():
        expected, both = alone(bench, model, steps, 2, warm_up)
        apart = side_by_side(bench, model, warm_up, steps)
        computing[model] = 1 / apart["steps_per_s"]
        wire = wire_s(2, apart["gradient_bytes"])
        least = max(computing[model], wire)
        samples, peers, why = [], [], ""
        for _ in rounds(bench):
            samples.append(Timed(bench, 2, model, warm_up, steps, expected, pinned=True).step_s / least)
            if not why:
                peer, why = peer_or_reason(lambda: peer_step_s(bench, model, warm_up, steps, both["loss"]))
                peers += [peer / least] if peer else []
        bench.row(f"hosts/2/{model}_1gbit", "x", samples, peer=median(peers) if peers else None, why_no_peer=why,
                  note=f"of {least * 1000:.0f} ms: computing {computing[model] * 1000:.0f} ms, wire {wire * 1000:.0f} ms")


def all_reduce(bench):
    model, warm_up, steps = "cifar_resnet18+slept=0.001", 3, 30
    for count in (2, 4):
        expected, told = alone(bench, model, steps, count, warm_up)
        wire = wire_s(count, told["gradient_bytes"])
        apart_s = 1 / side_by_side(bench, model, warm_up, steps)["steps_per_s"]
        timed = [Timed(bench, count, model, warm_up, steps, expected) for _ in rounds(bench)]
        name = f"hosts/{count}/allreduce_44.7MB"
        bench.row(name, "ratio", [wire / (each.step_s - apart_s) for each in timed], goal=0.9 if count == 2 else None, less_is_better=False,
                  note=f"wire {wire * 1000:.0f} ms, a step without communication {apart_s * 1000:.0f} ms")
        bench.row(name + "/cpu", "s/GB", [each.cpu_s_per_gb for each in timed])


def table(bench, computing):
    """The tutorial's table: a step, an epoch and the scaling efficiency of each number of hosts."""
    for model, counts in TABLE.items():
        batch = 64 if model == "cifar_resnet18" else 8
        slept_ms = 1000 * computing.get(model, computing["vgg19"] / 4)
        slept, first = f"{model}+slept={slept_ms:.1f}", None
        warm_up, steps = (1, 4) if model == "vgg19" else (1, 8)
        for count in counts:
            expected, told = alone(bench, f"{model}+slept=0.001", steps, count, warm_up)  # of the same weights
            samples = [Timed(bench, count, slept, warm_up, steps, expected).step_s for _ in rounds(bench)]
            first = first or median(samples)
            least = max(slept_ms / 1000, wire_s(count, told["gradient_bytes"]))
            epoch_min = PICTURES / (batch * count) * median(samples) / 60
            bench.row(f"hosts/{count}/{model}_slept", "ms", [1000 * each for each in samples],
                      note=f"least {1000 * least:.0f} ms, an epoch of {PICTURES} pictures {epoch_min:.1f} min, efficiency {first / median(samples):.2f}")


def measure(bench):
    computing = {}
    two_hosts(bench, computing)
    all_reduce(bench)
    table(bench, computing)
