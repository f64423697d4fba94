"""Namespaces with a first process of their own, and processes in them."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

COVERED = ("/tmp", "/var/tmp", "/dev/shm", "/srv")  # another one in each machine; /srv is the bed's folder
# The first process reaps what nobody waits for, and ends when its standard input does.
FIRST = "import os, signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.write(1, b'.'); os.read(0, 1)"
BOOT = """
for folder in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o mode=1777 tmpfs $folder; done
if [ -n "$1" ]; then hostname "$1"; for file in hosts resolv.conf; do mount --bind "/srv/.etc/$1/$file" /etc/$file; done
else mount -t tmpfs -o mode=755 tmpfs /srv; fi
ip link set lo up
exec "$2" -SEc "$3"
"""


class Missing(Exception):
    """This system lacks what the machines need; says what."""


def state_of(pid):
    """R, S, T, Z ... of a process; X when it is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def alive(pid):
    return state_of(pid) not in "ZX"


def only_child(pid):
    """The number of the one child of `pid`; None while there is none."""
    with contextlib.suppress(OSError, ValueError):
        return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text())
    return None


class Namespaces:
    """A network and mounts of their own, with a new /srv; or a machine of `switch`: all else too, and the switch's /srv.

    name   the machine's host name
    ahead  seconds by which its monotonic clock is ahead of that here; that of its boot is 5000 s more
    """

    def __init__(self, switch=None, name="", ahead=0):
        kinds = ["--uts", "--ipc", "--pid", "--mount-proc", "--time", "--monotonic", str(ahead), "--boottime", str(ahead + 5000)]
        within = switch.inside(kinds=("--mount",)) if switch else []
        command = [*within, "unshare", "--mount", "--net", *(kinds if switch else []), "--fork", "--kill-child",
                   "sh", "-ec", BOOT, "sh", name, sys.executable, FIRST]
        self.kinds = ("--net", "--mount", "--uts", "--ipc", "--pid", "--time") if switch else ("--net", "--mount")
        pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        self.holder = subprocess.Popen(command, start_new_session=True, **pipes)
        if not self.holder.stdout.read(1):
            raise Missing(f"namespaces cannot be had: {self.holder.communicate()[1].decode().strip()}")
        self.first = only_child(self.holder.pid)
        self.folder = pathlib.Path(f"/proc/{self.first}/root/srv")

    def inside(self, *words, kinds=None):
        return ["nsenter", f"--target={self.first}", *(kinds or self.kinds), "--", *map(str, words)]

    def tell(self, command, *lines):
        """Gives lines to a command in this network, without /tmp and the like of these namespaces."""
        text = "".join(f"{line}\n" for line in lines)
        done = subprocess.run(self.inside(*command, kinds=("--net",)), input=text, capture_output=True, text=True)
        if done.returncode != 0:
            raise Missing(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}\n{text}")
        return done.stdout

    def ip(self, *lines):
        return self.tell(["ip", "-batch", "-"], *lines)

    def nft(self, *lines):
        return self.tell(["nft", "-f", "-"], *lines)

    def rate(self, device, rate):
        subprocess.run(self.inside("tc", "qdisc", "del", "dev", device, "root"), capture_output=True)
        if rate:
            self.tell(["tc", "-batch", "-"], f"qdisc add dev {device} root tbf rate {rate} burst 256kb latency 100ms")

    def end(self, processes=()):
        """Kills all; `processes` are those of ours that were started in it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.first, signal.SIGKILL)
        for process in processes:  # the kernel waits for who reaps them
            process.go_on()
            process.wait()
        self.holder.communicate()


class Process(subprocess.Popen):
    """A process in namespaces. What Popen starts is nsenter, which waits for it and ends as it does, by a signal too."""

    @property
    def inner(self):
        """The process itself, by its number out here; None when it has ended."""
        end = time.monotonic() + 10
        while time.monotonic() < end and self.poll() is None:
            if pid := only_child(self.pid):
                return pid
            time.sleep(0.001)
        return None

    def send_signal(self, number):
        if pid := self.inner:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == signal.SIGCONT:
            self.go_on()

    def go_on(self):
        """nsenter stops itself when what it waits for is stopped."""
        super().send_signal(signal.SIGCONT)
