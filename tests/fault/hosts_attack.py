#!/usr/bin/env python3
"""A stranger in the network of a linked program's run on three hosts, who has no key: at the ports of links and of the launcher that
leads. The run has the bits of an undisturbed one; nobody needs much for it, and each kind is told once.

    hosts_attack.py [TEST...]    (environment: harness.py)    Exit 77: skipped, no machines here.
    hosts_attack.py --attack SECONDS ADDRESS:PORT...    what the stranger runs
"""
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

MAGIC = b"LSLINK\x03\n"  # of a link's hello
HELLO_BYTES = 80
IDLE = 300  # connections at once that say nothing, at each port


class Attack:
    """One port, until a moment."""

    def __init__(self, place, until):
        host, port = place.rsplit(":", 1)
        self.place, self.until, self.random, self.count = (host, int(port)), until, random.Random(place), 0

    def connect(self):
        there = socket.create_connection(self.place, timeout=2)
        self.count += 1
        return there

    def say(self, what):
        """Whoever is there may close at any moment."""
        try:
            with self.connect() as there:
                there.sendall(what)
        except OSError:
            pass

    def stay(self):
        """Opens many, and says nothing; or a part of something."""
        held = []
        while time.monotonic() < self.until:
            if len(held) >= IDLE:
                held.pop(0).close()
            try:
                held.append(self.connect())
                held[-1].send(self.random.choice((b"L", MAGIC, MAGIC + bytes(30), b"\x16\x03\x01\x02\x00", b"\x16\x03\x01")))
            except OSError:
                time.sleep(0.01)

    def flood(self):
        while time.monotonic() < self.until:
            self.say(b"")

    def garbage(self):
        kinds = (lambda: self.random.randbytes(64 * 1024), lambda: b"GET / HTTP/1.0\r\n\r\n", lambda: struct.pack("<2I", 2**32 - 1, 2**32 - 1),
                 lambda: b"\x16\x03\x01\xff\xff" + self.random.randbytes(2**16), lambda: bytes(4) + b"\xff" * 4096)
        while time.monotonic() < self.until:
            self.say(self.random.choice(kinds)())

    def hellos(self):
        """With a cookie and parties of its own; and what no frame can be behind it."""
        while time.monotonic() < self.until:
            self.say(MAGIC + self.random.randbytes(HELLO_BYTES - len(MAGIC)) + b"\xff" * 8192)

    def start(self):
        self.threads = [threading.Thread(target=what) for what in (self.stay, self.flood, self.garbage, self.hellos)]
        for thread in self.threads:
            thread.start()

    def end(self):
        for thread in self.threads:
            thread.join()
        return self.count


def attack(seconds, *places):
    until = time.monotonic() + float(seconds)
    attacks = [Attack(place, until) for place in places]
    for each in attacks:
        each.start()
    print(*(each.end() for each in attacks))


if sys.argv[1:2] == ["--attack"]:
    attack(*sys.argv[2:])
    sys.exit(0)

from harness import LOCKSTEP, built  # noqa: E402
from hosts_machines import PORT, GroupOnMachines, missing  # noqa: E402
from hosts_programs import wanted  # noqa: E402
import hosts  # noqa: E402


def ring(output):
    """Longer than an attack."""
    return [built("ring"), "--epochs", 30, "--virtual-workers", 6, "--log-every", 0, "--output", output]


def memory_of(pid):
    """The most that it has had, in KiB."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


def listens_at(pid):
    """Ports of the sockets that a process has and that listen, on any address."""
    own = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.add(os.readlink(fd))
        except OSError:  # closed in the meantime
            pass
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in own:
                ports.add(int(words[1].rsplit(":", 1)[1], 16))
    return ports


class AttackTest(unittest.TestCase):
    WORKERS = (2, 1, 2)

    def start(self):
        self.bed = hosts.Bed(len(self.WORKERS) + 1)
        self.addCleanup(self.bed.close)
        self.group = GroupOnMachines(self.bed, self.id(), self.WORKERS, ring)
        self.addCleanup(self.group.end)
        self.group.start()
        self.group.until_committed(5)

    def launcher(self, host):
        return next(pid for pid in host.pids() if pid != host.link() and listens_at(pid) & {PORT})

    def attack(self, seconds, places):
        stranger = self.bed[len(self.WORKERS) + 1]
        done = stranger.run(sys.executable, pathlib.Path(__file__).resolve(), "--attack", seconds, *places)
        counts = [int(word) for word in done.stdout.split()]
        self.assertEqual(len(counts), len(places), done.stderr)
        self.assertGreater(min(counts), 100, "the attack came to nothing")

    def expect(self, pids, before):
        """All goes on as if nothing had come; `before`: the memory of these, in KiB."""
        for pid, least in zip(pids, before):
            self.assertLess(memory_of(pid) - least, 32 << 10, self.group.told())
            self.assertLess(len(os.listdir(f"/proc/{pid}/fd")), 500)
        self.group.expect([0] * len(self.WORKERS))
        self.group.expect_exact(range(len(self.WORKERS)), wanted(ring))
        stranger = self.bed[len(self.WORKERS) + 1].v4
        for host in self.group.hosts:
            lines = [line for line in host.text().splitlines() if stranger in line]
            self.assertEqual(len(lines), len(set(lines)), "\n".join(lines))
            self.assertLessEqual(len(lines), 80, "\n".join(lines))
            self.assertNotIn("is lost", host.text())

    def test_at_the_links(self):
        self.start()
        links = [host.link() for host in self.group.hosts]
        places = [f"{self.bed[host.rank + 1].v4}:{min(listens_at(link))}" for host, link in zip(self.group.hosts, links)]
        before = [memory_of(link) for link in links]
        self.attack(4, places)
        for host in self.group.hosts:
            self.assertIn("it is no link of Lockstep's, or of another version", host.text())
        self.expect(links, before)

    def test_at_the_launcher_that_leads(self):
        self.start()
        launcher = self.launcher(self.group.hosts[0])
        before = [memory_of(launcher)]
        self.attack(4, [f"{self.bed[1].v4}:{PORT}"])
        self.expect([launcher], before)

    def test_one_host_listens_nowhere(self):
        """Of a program that links Lockstep; several do, as this would see."""
        self.bed = hosts.Bed(1)
        self.addCleanup(self.bed.close)
        process = self.bed[1].start(LOCKSTEP, "run", "--standalone", "--nproc-per-node", "2", *map(str, ring("/srv/alone")),
                                    stdout=subprocess.DEVNULL, env={"OMP_NUM_THREADS": "1"})
        most, ports = 0, set()
        while process.poll() is None:
            pids = self.bed[1].pids()
            most = max(most, len(pids))
            for pid in pids:
                try:
                    ports |= listens_at(pid)
                except OSError:  # gone in the meantime
                    pass
        self.assertEqual((process.returncode, ports), (0, set()))
        self.assertGreater(most, 3)


if __name__ == "__main__":
    if reason := missing():
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2)
