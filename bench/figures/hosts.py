"""A linked program on several hosts: until its first step, until it goes on after deaths, bytes on the wire.

Hosts are machines made of namespaces on this one: they share its cores. first_commit: from just before the first launcher's exec. dies:
from the SIGKILL to the next committed step as a host that lives records it, less the run's median step (a share's computing is a sleep of
20 ms, as on hosts that have cores of their own; what is left of the dead one's, up to 20 ms, is in it): of one worker of two on a host
(worker), of a host's only worker (last_worker), of all that is a host's (host: its kernel closes its connections; leader: the host whose
launcher leads), of a machine (power, and leader_power: nothing comes any more, and the silence limit is taken off, too, which is 1 s;
power_default, leader_power_default: 3 s, by default). last_worker_back: from the SIGKILL until that host's own records have a step that
it was in again. bytes: what a host sends and receives in a step over 2 (N - 1) / N of the gradients' size, each way, the worst host's.

The peer of first_commit, host and leader: hosts_peer.py.

Checked: every run ends with the weights of one worker that held all shares. Training over 1 Gb/s: hosts_training.py.
"""
import json
import os
import signal
import time

from figures import hosts_peer, hosts_training
from figures.common import median, peer_or_reason
from figures.host_runs import LIMIT_S, Run, alone, hosts


def kill_worker(run, machine):
    """A member there, whose pid the machine has otherwise."""
    status = machine.run(run.bench.lockstep, "status", "--json", f"/srv/run{machine.index}").stdout
    inside = [member["pid"] for member in json.loads(status)["members"] if member["rank"] is not None][-1]
    victim = next(pid for pid in machine.pids() if pid_inside(pid) == inside)
    then = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    return then


def pid_inside(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(next(line for line in status if line.startswith("NSpid:")).split()[-1])


def kill_host(run, machine):
    then = time.monotonic()
    machine.kill_all()
    return then


def cut_power(run, machine):
    then = time.monotonic()
    machine.kill()
    return then


SOON = ("--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=1")
# how, workers of the hosts, whose death (1 leads), whether it is gone for good, seconds of silence in it, options, goal in ms
DEATHS = {"worker": (kill_worker, (2, 2, 2), 3, False, 0, (), 25), "last_worker": (kill_worker, (1, 1, 1), 3, False, 0, (), 100),
          "host": (kill_host, (1, 1, 1), 3, True, 0, (), 1000), "leader": (kill_host, (1, 1, 1), 1, True, 0, (), 1000),
          "power": (cut_power, (1, 1, 1), 3, True, 1, SOON, 1000), "leader_power": (cut_power, (1, 1, 1), 1, True, 1, SOON, 1000),
          "power_default": (cut_power, (1, 1, 1), 3, True, 3, (), 1000),
          "leader_power_default": (cut_power, (1, 1, 1), 1, True, 3, (), 1000)}


def back_after(run, machine, then):
    """Milliseconds until its own records are those of the others again."""
    while (own := run.committed(machine)) < run.committed() - 1 or own < run.killed_at + 2:
        if time.monotonic() > then + LIMIT_S:
            run.fail(f"{machine.name} is not back")
        time.sleep(0.0005)
    return 1000 * (time.monotonic() - then)


def one_death(bench, expected, steps, virtual_workers, kill, workers, number, is_lost, silence_s, options):
    """Milliseconds until the next commit beyond a step, and until the host is back."""
    with hosts.Bed(len(workers)) as bed:
        run = Run(bench, bed, workers, "convnet+slept=20", steps, virtual_workers, options, witness=2 if number == 1 else 1)
        run.until(20)
        moments = [run.until_next() for _ in range(12)]
        step = median([b - a for a, b in zip(moments, moments[1:])])
        then = kill(run, bed[number])
        run.killed_at = run.committed()
        excess = 1000 * (run.until_next() - then - step - silence_s)
        back = None if is_lost or workers[number - 1] > 1 else back_after(run, bed[number], then)
        run.end(expected, (number,) if is_lost else ())
    return excess, back


def deaths(bench):
    steps, virtual_workers = 200, 6
    expected, _ = alone(bench, "convnet+slept=0.001", steps, virtual_workers)  # of the same weights
    for name, (*how, goal) in DEATHS.items():
        samples = [one_death(bench, expected, steps, virtual_workers, *how) for _ in range(2 if bench.quick else 8)]
        peer = hosts_peer.death(bench, how[2]) if name in ("host", "leader") else {}
        bench.row(f"hosts/{name}_dies", "ms", [excess for excess, _ in samples], goal=goal, **peer)
        if samples[0][1] is not None:
            bench.row(f"hosts/{name}_back", "ms", [back for _, back in samples])


def first_commit(bench):
    samples = []
    expected, _ = alone(bench, "convnet", 5, 2)
    for _ in range(3 if bench.quick else 9):
        with hosts.Bed(2) as bed:
            run = Run(bench, bed, (1, 1), "convnet", 5, 2)
            samples.append(run.until(1) - run.begin)
            run.end(expected)
    peer, why = peer_or_reason(lambda: median([hosts_peer.first_step_s(bench) for _ in range(1 if bench.quick else 3)]))
    bench.row("hosts/first_commit", "s", samples, goal=1, peer=peer, why_no_peer=why)


def wire(bench):
    """Of two lengths of run the difference: what belongs to steps alone."""
    for count in (2, 4):
        told, moved = {}, {}
        for steps in (5, 45):
            expected, told[steps] = alone(bench, "wide_mlp", steps, count)
            with hosts.Bed(count) as bed:
                run = Run(bench, bed, (1,) * count, "wide_mlp", steps, count)
                run.end(expected)
                moved[steps] = run.moved()
        least = 2 * (count - 1) / count * told[5]["gradient_bytes"] * 40
        worst = max(more - less for one, other in zip(moved[5], moved[45]) for less, more in zip(one, other))
        bench.row(f"hosts/{count}/bytes", "x", [worst / least], goal=1.02)


def measure(bench):
    if hosts.missing():
        print(f"  hosts: {hosts.missing()}")
        return
    first_commit(bench)
    deaths(bench)
    wire(bench)
    hosts_training.measure(bench)
