"""One machine of a bed."""
import contextlib
import json
import os
import random
import signal
import subprocess
import time

from hosts.namespaces import Missing, Namespaces, Process, alive, state_of

FIREWALL = ("table inet firewall {", "chain input { type filter hook input priority 0", "}", "}")
NOT_THERE = ("LOCKSTEP_FAULT", "PET_", "XDG_", "SLURM_", "TMPDIR", "OLDPWD", "PWD")


class Machine:
    """Made and started by its bed. Paths are those in the machine, process numbers those out here.

    address  by which the others know it: `v4`, or `v6` where the bed has that alone
    """

    def __init__(self, bed, index):
        self.bed, self.index, self.name = bed, index, f"host{index}"
        self.etc, self.home = bed.folder / ".etc" / self.name, bed.folder / f"home{index}"
        self.etc.mkdir(parents=True)
        self.home.mkdir()
        for file in ("hosts", "resolv.conf"):
            (self.etc / file).touch()
        self.started, self.boots, self.space = [], 0, None
        self.move(index)

    def move(self, number):
        """Gives it another address, from the next boot on."""
        self.v4, self.v6 = f"10.77.0.{number}", f"fd77::{number:x}"
        self.address = self.v6 if self.bed.family == "6" else self.v4

    def boot(self):
        """Starts it, with a monotonic clock of its own, which begins anew at the second boot."""
        now, days = int(time.clock_gettime(time.CLOCK_MONOTONIC)), random.Random(self.index).randrange(10**4, 10**7)
        ahead = days if self.boots == 0 else 100 + self.index - now
        self.boots += 1
        self.space = Namespaces(self.bed.switch, self.name, ahead)
        self.started = []
        self.bed.plug(self)
        return self

    def environment(self, more=None):
        """This process's, without what is of this machine; HOME is /srv/homeI."""
        mine = {name: value for name, value in os.environ.items() if not name.startswith(NOT_THERE)}
        return {**mine, "HOME": f"/srv/{self.home.name}", "HOSTNAME": self.name, **{k: str(v) for k, v in (more or {}).items()}}

    def command(self, *words):
        """What runs `words` in /srv there."""
        if not self.space:
            raise Missing(f"{self.name} is off")
        return self.space.inside("sh", "-c", 'cd /srv && exec "$@"', "sh", *words)

    def start(self, *words, env=None, **more):
        """A Process in /srv, in a session of its own, without standard input; `more` as for Popen."""
        more = {"stdin": subprocess.DEVNULL, "start_new_session": True, **more}
        process = Process(self.command(*words), env=self.environment(env), **more)
        self.started.append(process)
        return process

    def run(self, *words, check=True, env=None, timeout=60):
        """The same to its end: subprocess.CompletedProcess with text."""
        process = self.start(*words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        done = subprocess.CompletedProcess(words, process.returncode, out, err)
        if check and done.returncode != 0:
            raise subprocess.CalledProcessError(done.returncode, words, out, err)
        return done

    def pids(self):
        """All that runs there, but for its first process."""
        mine, found = os.stat(f"/proc/{self.space.first}/ns/pid").st_ino, []
        for entry in os.scandir("/proc"):
            if entry.name.isdigit() and int(entry.name) != self.space.first:
                with contextlib.suppress(OSError):
                    if os.stat(f"/proc/{entry.name}/ns/pid").st_ino == mine and alive(entry.name):
                        found.append(int(entry.name))
        return found

    # What it does not do by itself
    def signal_all(self, number, done):
        """To every process, and to what they begin meanwhile, until all are in one of these states."""
        end = time.monotonic() + 10
        while left := [pid for pid in self.pids() if state_of(pid) not in done]:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            if time.monotonic() > end:
                raise AssertionError(f"{self.name}: {left} did not heed signal {number}")
            time.sleep(0.001)

    def pause(self):
        self.signal_all(signal.SIGSTOP, "TtZX")

    def wake(self):
        self.signal_all(signal.SIGCONT, "RSDIZX")
        for process in self.started:
            process.send_signal(signal.SIGCONT)

    def kill_all(self):
        """All processes; the machine itself goes on, and tells so who calls."""
        self.signal_all(signal.SIGKILL, "ZX")
        for process in self.started:
            process.go_on()

    def kill(self):
        """The power fails: nothing more is sent, no goodbye and no reset."""
        if self.space:
            self.bed.unplug(self)
            self.off()

    def off(self):
        if self.space:
            self.space.end(self.started)
            self.space = None

    def firewall(self, *rules):
        """What happens to packets for it, by rules of nftables in place of the last ones: 'tcp dport 29400 drop',
        'ip saddr 10.77.0.1 reject with tcp reset', 'meta length > 1000 drop'."""
        self.space.nft("flush chain inet firewall input", *(f"add rule inet firewall input {rule}" for rule in rules))

    def rate(self, rate):
        """Of its link, both ways: '100mbit'; None: no limit."""
        self.space.rate("eth0", rate)
        self.bed.switch.rate(f"p{self.index}", rate)

    def bytes(self):
        """(sent, received) by its link so far."""
        stats = json.loads(self.space.tell(["ip", "-s", "-j", "link", "show", "eth0"]))[0]["stats64"]
        return stats["tx"]["bytes"], stats["rx"]["bytes"]
