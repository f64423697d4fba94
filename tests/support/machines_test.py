#!/usr/bin/env python3
"""The machines of hosts/ are what they are said to be: each power shown by what two processes see of it.

Exit 77: skipped, where the system does not have what they need.
"""
import pathlib
import signal
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import hosts  # noqa: E402

SERVE = """
import socket, sys, threading
def serve(connection):
    try:
        while data := connection.recv(1 << 16):
            connection.sendall(data[:1])
    except OSError:
        pass
v6 = sys.argv[1] == "6"
listener = socket.create_server(("", 5000), family=socket.AF_INET6 if v6 else socket.AF_INET, dualstack_ipv6=v6)
print("listening", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
# Says what became of each byte that it is told to send: "ok", or the name of the error.
CALL = """
import socket, sys
def attempt(what):
    try:
        what()
        print("ok", flush=True)
    except OSError as error:
        print(type(error).__name__ if not str(error).startswith("timed out") else "silence", flush=True)
def talk():
    connection.sendall(b"x" * size)
    if not connection.recv(1):
        raise ConnectionError()
def connect():
    global connection
    connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), limit)
for line in sys.stdin:
    size, limit = int(line.split()[0]), float(line.split()[1])
    if size:
        connection.settimeout(limit)
    attempt(talk if size else connect)
"""


class Caller:
    def __init__(self, machine, address, port=5000):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        self.process = machine.start(sys.executable, "-c", CALL, address, port, **pipes)

    def says(self, size, limit=10):
        """After `size` bytes; 0: after a new connection."""
        self.process.stdin.write(f"{size} {limit}\n")
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.kill()
        self.process.communicate()


def clocks(machine):
    return [float(word) for word in machine.run(sys.executable, "-c", "import time; print(time.monotonic(), time.time())").stdout.split()]


class Machines(unittest.TestCase):
    def bed(self, *args, **more):
        bed = hosts.Bed(*args, **more)
        self.addCleanup(bed.close)
        return bed

    def pair(self, bed, address=None):
        """(serving process in machine 2, caller in machine 1, connected)"""
        serving = bed[2].start(sys.executable, "-c", SERVE, "4" if bed.family == "4" else "6", stdout=subprocess.PIPE, text=True)
        self.addCleanup(serving.stdout.close)
        self.assertEqual(serving.stdout.readline(), "listening\n")
        caller = Caller(bed[1], address or bed[2].address)
        self.addCleanup(caller.close)
        self.assertEqual(caller.says(0), "ok")
        self.assertEqual(caller.says(1), "ok")
        return serving, caller

    def test_each_has_its_own(self):
        bed = self.bed(3)
        self.assertEqual([m.run("hostname").stdout for m in bed], ["host1\n", "host2\n", "host3\n"])
        for machine in bed:
            machine.run("sh", "-c", "echo $0 >/tmp/$0 && echo $0 >/srv/$0", machine.name)
            self.assertEqual(machine.run("ls", "/tmp").stdout, f"{machine.name}\n")
            self.assertEqual(machine.run("sh", "-c", "echo $HOME; ls /proc | grep -c '^[0-9]'").stdout.split()[0], f"/srv/home{machine.index}")
            self.assertEqual(machine.pids(), [])
        self.assertEqual(bed[1].run("sh", "-c", "cat /srv/host?").stdout, "host1\nhost2\nhost3\n")
        told = [clocks(m) for m in bed]
        self.assertEqual(len({round(monotonic, -3) for monotonic, _ in told}), 3, told)
        self.assertLess(max(wall for _, wall in told) - min(wall for _, wall in told), 10)

    def test_names(self):
        bed, other = self.bed(2), self.bed(2)

        def look(name):
            return bed[1].run("getent", "ahostsv4", name, check=False).stdout.split()[:1]
        self.assertEqual([look(name) for name in ("host1", "host2")], [["10.77.0.1"], ["10.77.0.2"]])
        bed.name("own")
        self.assertEqual([look(name) for name in ("host1", "host2")], [["127.0.1.1"], []])
        bed.name("none")
        self.assertEqual([look(name) for name in ("host1", "localhost")], [[], ["127.0.0.1"]])
        bed.name("10.77.0.9 pod pod.service\n")
        self.assertEqual(look("pod.service"), ["10.77.0.9"])
        self.assertEqual(other[1].run("getent", "hosts", "host2").stdout.split(), ["10.77.0.2", "host2"])

    def test_families(self):
        for family, address in (("6", "fd77::2"), ("6", "fe80::2%eth0"), ("both", "10.77.0.2"), ("both", "host2")):
            with self.subTest(family=family, address=address), hosts.Bed(2, family=family) as bed:
                self.pair(bed, address)
                self.doCleanups()
        bed = self.bed(1)
        self.assertNotEqual(bed[1].run(sys.executable, "-c", "import socket; socket.create_server(('::1', 0), family=10)", check=False).returncode, 0)

    def test_cuts(self):
        bed = self.bed(4)
        _, caller = self.pair(bed)
        for cut in (lambda: bed.cut_one_way([1], [2]), lambda: bed.cut_one_way([2], [1]), lambda: bed.cut([1, 3], [2, 4]),
                    lambda: bed.isolate(2)):
            cut()
            self.assertEqual([caller.says(1, 0.2), caller.says(0, 0.2)], ["silence", "silence"], "no reset, and nobody refuses")
            self.assertGreater(bed.dropped(), 0)
            bed.heal()
            self.assertEqual([caller.says(0), caller.says(1)], ["ok", "ok"])
        bed.isolate(3)
        bed.cut([1], [4])
        self.assertEqual(caller.says(1), "ok", "what is not cut goes on")
        bed.heal()
        bed.rules("iifname p1 drop")
        self.assertEqual(caller.says(1, 0.2), "silence")
        bed.rules("numgen random mod 100 < 30 drop")
        self.assertEqual(caller.says(1, 30), "ok", "sent again until it comes")

    def test_a_short_cut_loses_nothing(self):
        bed = self.bed(2)
        _, caller = self.pair(bed)
        bed.isolate(1)
        caller.process.stdin.write("1 10\n")
        time.sleep(0.1)
        bed.heal()
        self.assertEqual(caller.process.stdout.readline(), "ok\n")

    def test_firewalls(self):
        bed = self.bed(2)
        _, caller = self.pair(bed)
        bed[2].firewall("tcp dport 5000 reject with tcp reset")
        self.assertEqual(caller.says(0), "ConnectionRefusedError")
        bed[2].firewall("tcp dport 5000 drop")
        self.assertEqual(caller.says(0, 0.2), "silence")
        bed[2].firewall("reject with icmp type host-unreachable")
        self.assertEqual(caller.says(0), "OSError")
        bed[2].firewall("meta length > 1000 drop")
        self.assertEqual([caller.says(0), caller.says(100), caller.says(9000, 0.2)], ["ok", "ok", "silence"])
        bed[2].firewall()
        self.assertEqual([caller.says(0), caller.says(9000)], ["ok", "ok"])

    def test_pauses(self):
        bed = self.bed(2)
        serving, caller = self.pair(bed)
        bed[2].pause()
        self.assertEqual([hosts.state_of(pid) for pid in bed[2].pids()], ["T"])
        self.assertEqual(caller.says(1, 0.2), "silence")
        bed[2].wake()
        self.assertEqual(caller.says(0), "ok")
        serving.send_signal(signal.SIGTERM)
        self.assertEqual(serving.wait(10), -signal.SIGTERM, "told to who waits, in spite of the pause")

    def test_deaths(self):
        bed = self.bed(2)
        serving, caller = self.pair(bed)
        bed[2].kill_all()
        self.assertEqual(serving.wait(10), -signal.SIGKILL)
        self.assertEqual([caller.says(1), caller.says(0)], ["ConnectionError", "ConnectionRefusedError"])
        serving, caller = self.pair(bed)
        before = clocks(bed[2])[0]
        bed[2].kill()
        self.assertEqual(caller.says(1, 0.2), "silence", "the power failed: no goodbye")
        self.assertNotEqual(caller.says(0, 0.2), "ConnectionRefusedError")
        self.assertIsNotNone(serving.poll())
        bed[1].start("sleep", "60").inner
        bed[1].pause()
        bed[1].kill()  # in its sleep
        bed[1].boot()
        bed[2].move(77)
        bed[2].boot()
        self.assertLess(clocks(bed[2])[0], min(before, 1000))
        self.assertEqual(bed[2].address, "10.77.0.77")
        self.pair(bed)

    def test_rates(self):
        bed = self.bed(2)
        bed[1].rate("80mbit")
        _, caller = self.pair(bed)
        before, begun = bed[1].bytes()[0], time.monotonic()
        self.assertEqual(caller.says(2_000_000), "ok")
        while bed[1].bytes()[0] - before < 2_000_000:
            time.sleep(0.005)
        self.assertGreater(time.monotonic() - begun, 0.15, "2 MB at 10 MB/s, of which 0.26 MB are a burst")

    def test_nothing_outlives_its_maker(self):
        text = (f"import sys, time; sys.path.insert(0, {str(HERE)!r}); import hosts; bed = hosts.Bed(2); "
                "jobs = [m.start('sleep', '1000') for m in bed]; print(*[j.inner for j in jobs], *[p for m in bed for p in [m.space.first, *m.pids()]], flush=True); time.sleep(99)")
        maker = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
        pids = maker.stdout.readline().split()
        self.assertGreaterEqual(len(pids), 6)
        maker.kill()
        maker.communicate()
        end = time.monotonic() + 10
        while any(hosts.state_of(pid) not in "ZX" for pid in pids):
            self.assertLess(time.monotonic(), end, pids)
            time.sleep(0.01)

    def test_as_a_command(self):
        script = "machines run 1 hostname; machines cut 1 2; machines kill 2; machines run 2 true; machines boot 2 && machines run 2 hostname; exit 7"
        done = subprocess.run([HERE / "machines", "2", "sh", "-c", script], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (7, "host1\nhost2\n", "machines run 2 true: Missing: host2 is off\n"))


if __name__ == "__main__":
    hosts.enter()
    if reason := hosts.missing():
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2)
