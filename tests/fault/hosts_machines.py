"""The same on machines made of namespaces (tests/support/hosts): the network between hosts can be cut.

    environment: harness.py
"""
import pathlib
import sys

import harness
from harness import LOCKSTEP
from hosts_group import MARK, Group, Host

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import hosts

KEY = "0123456789abcdef" * 4
PORT = 29400


def missing():
    """Why there are no machines here; "" where there are."""
    hosts.enter()
    reason = hosts.missing()
    if path := hosts.covered(LOCKSTEP, harness.CONVNET, __file__, sys.executable):
        reason = f"'{path}' is where a machine has a folder of its own: build elsewhere than in {', '.join(hosts.COVERED)}"
    return reason


def outside(pids, wanted):
    """Numbers out here of those processes that have one of the `wanted` numbers in their machine."""
    def inner(pid):
        try:
            lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:  # gone in the meantime
            return None
        return next(int(line.split()[-1]) for line in lines if line.startswith("NSpid:"))
    found = {inner(pid): pid for pid in pids}
    return {number: found[number] for number in wanted if number in found}


class HostOnMachine(Host):
    def __init__(self, group, rank, workers):
        super().__init__(group, rank, workers)
        self.machine = group.bed[rank + 1]

    def begin(self, words, log):
        there = {MARK: self.mark, "LOCKSTEP_RUN_KEY": KEY, "OMP_NUM_THREADS": "1"}
        return self.machine.start(*words, stdout=log, stderr=log, env=there)

    def output_there(self):
        return pathlib.Path("/srv") / self.output.relative_to(self.group.bed.folder)

    def ask(self, *words):
        return self.machine.run(LOCKSTEP, *words, check=False)

    def members(self):
        """With their numbers out here."""
        members = super().members()
        there = outside(self.pids(), [member["pid"] for member in members])
        return [{**member, "pid": there[member["pid"]]} for member in members if member["pid"] in there]

    def kill(self):
        self.machine.wake()
        self.machine.kill_all()

    def left(self):
        """A moment after its end: what is there that was not before."""
        if not self.machine.space:
            return []
        files = self.machine.run("find", "/tmp", "/var/tmp", "/dev/shm", "-mindepth", "1").stdout.split()
        return [f"{self.machine.name}: {what}" for what in (*self.machine.pids(), *files)]


class GroupOnMachines(Group):
    """One host on each of the first machines of the bed."""

    def __init__(self, bed, name, workers, program, options=()):
        self.bed = bed
        super().__init__(name, workers, program, options, folder=bed.folder, kind=HostOnMachine)
        self.endpoint = f"{bed[1].address}:{PORT}"

    def check_nothing_is_left(self):
        super().check_nothing_is_left()
        if left := [what for host in self.hosts for what in host.left()]:
            self.fail(f"left behind: {left}")

    def end(self):
        for host in self.hosts:
            if host.process and host.machine.space:
                host.kill()
                host.process.wait()
