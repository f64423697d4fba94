"""torchrun on the same machines as the runs of hosts.py: two or three agents with one worker each, a ConvNet with
DistributedDataParallel over Gloo (trainer.py of the --peers folder).

Its settings are those under which it goes on at all: --nnodes=1:N, last_call_timeout=1, a store of its own. Steps that it does again are
not looked at. Each machine has its own clock, so that events are seen from outside, within 10 ms.
"""
import shutil
import time

from figures.common import Missing, median, peer_events
from figures.host_runs import PORT, LIMIT_S, hosts

NEVER_S = 60  # so long after a death it is not waited for


class Job:
    def __init__(self, bench, bed, nnodes):
        trainer = bench.peer_trainer()
        self.bed = bed
        shutil.copytree(bench.peer_data(), bed.folder / "data")
        bench.idle()
        self.begin = time.monotonic()
        for machine in bed:
            log = open(bed.folder / f"{machine.name}.log", "w")
            machine.start(bench.python(), "-m", "torch.distributed.run", "--nnodes", nnodes, "--nproc-per-node", "1",
                          "--rdzv-backend", "c10d", "--rdzv-endpoint", f"{bed[1].address}:{PORT}", "--rdzv-id", "bench",
                          "--rdzv-conf", "last_call_timeout=1", "--max-restarts", "3", "--monitor-interval", "0.1", trainer, "--dir",
                          f"/srv/peer{machine.index}",
                          env=bench.peer_env(PEER_DATA="/srv/data", GLOO_SOCKET_IFNAME="eth0", TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1"),
                          stdout=log, stderr=log)

    def steps(self, machine, world):
        """Moments of its steps in groups of so many workers, by its own clock."""
        events = peer_events(self.bed.folder / f"peer{machine.index}" / "events")
        return [event["t"] for event in events if event["ev"] == "step" and event["world"] == world]

    def until(self, machines, world, count, seconds=LIMIT_S):
        """When all of them had so many steps of it; none: not so soon."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if all(len(self.steps(machine, world)) >= count for machine in machines):
                return time.monotonic()
            time.sleep(0.01)
        return None

    def fail(self, what):
        logs = "".join((self.bed.folder / f"{machine.name}.log").read_text()[-300:] for machine in self.bed)
        raise Missing(f"torchrun: {what}: {logs}"[:600])


def first_step_s(bench):
    with hosts.Bed(2) as bed:
        job = Job(bench, bed, "2")
        then = job.until(bed, 2, 1)
        return then - job.begin if then else job.fail("no first step")


def one_death_ms(bench, number):
    """From the death of a host's processes to the next step of those that are left, beyond a step; none: it did not go on."""
    with hosts.Bed(3) as bed:
        job = Job(bench, bed, "1:3")
        if job.until(bed, 3, 20) is None:
            job.fail("the group of three did not form")
        moments = job.steps(bed[2], 3)
        step = median([b - a for a, b in zip(moments, moments[1:])])
        then = time.monotonic()
        bed[number].kill_all()
        back = job.until([machine for machine in bed if machine.index != number], 2, 1, NEVER_S)
        return 1000 * (back - then - step) if back else None


def death(bench, number):
    """The fields of a row (Bench.row)."""
    try:
        found = [one_death_ms(bench, number) for _ in range(1 if bench.quick else 3)]
    except Missing as reason:
        return {"why_no_peer": str(reason)}
    back = [each for each in found if each is not None]
    hangs = len(found) - len(back)
    return {"peer": median(back) if back else None, "why_no_peer": "" if back else f"no step within {NEVER_S} s", "peer_samples": len(back),
            "peer_hangs": hangs, "note": f"peer: torchrun; {hangs} of {len(found)} did not go on within {NEVER_S} s"}
