#!/usr/bin/env python3
"""What people report of networks that are not what they seem, and of runs that come and go: the second half of nodes_cases.py.

Exit 77: skipped, where the system has no machines.
"""
import os
import re
import signal
import subprocess
import sys
import time

from nodes import parallel
from nodes.case import END, MIDDLE, SLACK, OnMachines
from nodes.job import CALM, CALM_LIMIT, FORMING, LIMIT, QUICK

SOON = 5.0
# Comes to a port again and again, with what no launcher and no store's client says, and stays: half-open, garbage, giant lengths. For so
# many seconds, and until it has come more than so often.
FLOOD = r"""
import os, socket, struct, sys, time
store = b"\0" + struct.pack("=I", 0x3C85F7CE)
kinds = [b"", b"\x16", b"\x16\x03\x01\xff\xff" + bytes(16384), b"L" * 20000, b"LOCKSTEP" + b"\xff" * 64, b"GET / HTTP/1.1\r\n\r\n", b"\0", store,
         store + b"\1" + struct.pack("=Q", 1 << 60), store + b"\6" + struct.pack("=Q", 1 << 40), store + b"\xee" * 4096]
seconds, often = float(sys.argv[3]), int(sys.argv[4])
open_ones, came, begun = [], 0, time.monotonic()
while (lasted := time.monotonic() - begun) < seconds or (came <= often and lasted < 20):
    try:
        one = socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)
        one.settimeout(2)
        one.sendall(store if came % 2 else kinds[came // 2 % len(kinds)] if came % 12 else os.urandom(5000))
        open_ones.append(one)
    except OSError:
        pass
    came += 1
    if len(open_ones) > 800:
        open_ones.pop(200).close()  # the first stay
print(came)
"""

# So many clients of a store, each with a question; how many are answered.
CLIENTS = r"""
import socket, struct, sys
hello, ping, clients = b"\0" + struct.pack("=I", 0x3C85F7CE), b"\x0d" + struct.pack("=I", 7), []
def answered():
    try:
        clients.append(socket.create_connection((sys.argv[1], int(sys.argv[2])), 5))
        clients[-1].sendall(hello + ping)
        return clients[-1].recv(4, socket.MSG_WAITALL) == ping[1:]
    except OSError:
        return False
print(sum(answered() for _ in range(int(sys.argv[3]))))
"""


def memory_of(agent):
    """In bytes."""
    with open(f"/proc/{agent.inner}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) * 1024


class Coming(OnMachines):
    def test_g2_one_comes_later(self):
        """The others say whom they wait for."""
        bed = self.bed(3)
        job = self.job(bed=bed, start=False, worker=("--steps", "5"))
        job.start(bed[1])
        job.start(bed[3])
        job.until_said(bed[1], r"waiting for node 1 \(never seen\)", SOON + SLACK)
        job.start(bed[2])
        job.expect(0)

    def test_g3_one_ends_later(self):
        """Nobody has a complaint."""
        job = self.job(worker=("--linger", "2:3"), conf=CALM)
        self.at("end", job)
        job.bed[2].pause()
        time.sleep(LIMIT / 4)
        job.bed[2].wake()
        job.expect(0)
        self.assertEqual(job.warnings(), {})

    def test_g3_one_sleeps_when_all_have_ended(self):
        """Below L, as the last word goes round."""
        job = self.job(conf=CALM)
        job.until_works()
        time.sleep(LIMIT / 4)
        job.finish()
        job.bed[3].pause()
        time.sleep(LIMIT / 4)
        job.bed[3].wake()
        job.expect(0)
        self.assertEqual(job.warnings(), {})

    def lost(self, index, teller, says):
        job = self.job(options={"max-restarts": 1}, conf=f"{QUICK},join_timeout=6", worker=("--on-loss", "hang"))
        self.at(MIDDLE, job)
        begun = time.monotonic()
        job.kill(job.bed[index])
        job.until_said(job.bed[teller], says, LIMIT + SOON)
        job.expect(69, seconds=LIMIT + 6 + FORMING)
        self.assertGreater(time.monotonic() - begun, 5)
        self.assertEqual(job.witness.attempt(), 0)

    def test_g4_the_others_wait_for_a_lost_launcher(self):
        self.lost(2, 1, r"waiting for node 1 \(10.77.0.2")

    def test_g1_g4_the_others_wait_for_the_leader(self):
        self.lost(1, 3, "the launcher at host1:29400 is not reached")

    def test_g5_killed_after_term(self):
        """As a batch system does, sooner than workers that ignore TERM would end."""
        job = self.job(worker=("--on-loss", "hang", "--child"))
        self.at(MIDDLE, job)
        for agent in job.agents.values():
            agent.send_signal(signal.SIGTERM)
        for agent in job.agents.values():
            agent.send_signal(signal.SIGKILL)
        for machine in job.machines:
            job.agents[machine].wait(10)
            job.given_up.add(machine)
        job.witness.check()
        job.check_clean()

    def test_all_others_started_again_from_elsewhere(self):
        """By cron, say: no variables of a login, and another spelling of the endpoint. Only the leader's record tells of the one cut off."""
        bed = self.bed(4)
        bed[1].run("mkdir", "/tmp/login")
        job = self.job(bed=bed, machines=(1, 2, 3), worker=("--on-loss", "hang"), env={"XDG_RUNTIME_DIR": "/tmp/login", "TMPDIR": "/tmp/login"})
        self.at(MIDDLE, job)
        bed.isolate(3)
        for index in (1, 2):
            job.agents[bed[index]].send_signal(signal.SIGKILL)
            job.agents[bed[index]].wait(10)
        bed[1].run("rm", "-r", "/tmp/login")
        job.env, job.endpoint = {}, bed[1].address + ":29400"
        for index in (1, 2):
            job.start(bed[index])
        job.replace(bed[3], bed[4])
        self.assertEqual(job.until_works(1, seconds=3 * LIMIT + 1 + FORMING), 1)
        self.assertIn("of the same command: this run goes on from there, with restart count 1 of 1000", job.log())
        self.ends_well(job)

    def test_another_command_after_a_run_that_was_killed(self):
        """Waits for what may be left of that run, and takes neither its count nor its restarts."""
        bed = self.bed(2)
        killed = self.job(bed=bed)
        killed.until_works()
        for agent in killed.agents.values():
            agent.send_signal(signal.SIGKILL)
            agent.wait(10)
        killed.witness.wait(lambda: not killed.witness.alive(), "the end of the old workers", 10)
        began = time.monotonic()
        job = self.job(bed=bed, worker=("--on-loss", "hang"))
        self.assertEqual(job.until_works(seconds=LIMIT + 1 + FORMING), 0)
        self.assertGreater(time.monotonic() - began, LIMIT + 1 - 0.1)
        self.assertIn("another program or other arguments: this run begins anew, with restart count 0", job.log())
        self.ends_well(job)


class CutAtTheEnd(OnMachines):
    """The last worker ends while another node, whose own have ended, does not hear the leader, or is not heard: in all for less than
    L less 1 s."""

    def cut(self, how, seconds, **more):
        job = self.job(worker=("--linger", "2:told"), **more)
        self.at(END, job)
        last = job.worker_on(job.bed[3])
        how(job.bed)
        job.leave()
        job.witness.wait(lambda: last.gone, "the last worker's end")
        time.sleep(seconds)
        self.assertGreater(job.bed.dropped(), 0)
        job.bed.heal()
        job.expect(0)
        self.assertEqual(job.witness.attempt(), 0)

    def test_healed_in_time(self):
        for how in (lambda bed: bed.cut([1], [2]), lambda bed: bed.cut_one_way([1], [2]), lambda bed: bed.cut_one_way([2], [1])):
            with self.subTest(how):
                self.cut(how, 0.3 * CALM_LIMIT, conf=CALM)

    def test_between_others(self):
        self.cut(lambda bed: bed.cut([2], [3]), LIMIT + 1)


class Networks(OnMachines):
    def test_t6_as_few_as_two_nodes_need(self):
        bed = self.bed(2)
        job = self.job(bed=bed, start=False)
        for machine in bed:
            command = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", *job.command(machine)]
            job.agents[machine] = machine.start(*command, env=job.environment(), stderr=subprocess.DEVNULL)
        job.until_works()
        job.finish()
        job.expect(0)

    def not_reached(self, rule, says):
        """The cause is told, and once it is gone all goes on."""
        bed = self.bed(2)
        bed[1].firewall(f"tcp dport 29400 iifname eth0 {rule}")
        job = self.job(bed=bed)
        job.until_said(bed[2], f"host1:29400 is not reached: .*({says})", SOON + SLACK)
        bed[1].firewall()
        job.until_works(seconds=2 * FORMING)
        job.finish()
        job.expect(0)

    def test_t3_refused(self):
        self.not_reached("reject with tcp reset", r"refused.*start it there, with the same endpoint; this machine has 10\.77\.0\.2 \(eth0\).*goes on trying for 5\d\d\.\d s")

    def test_t3_dropped(self):
        self.not_reached("drop", r"no answer within.*the endpoint is not here: this machine has 10\.77\.0\.2 \(eth0\)")

    def test_t3_prohibited(self):
        self.not_reached("reject with icmp type admin-prohibited", "No route|unreachable")

    def test_t3_no_route(self):
        bed = self.bed(2)
        bed[2].space.ip("route add unreachable 10.77.0.1/32")
        job = self.job(bed=bed)
        job.until_said(bed[2], "host1:29400 is not reached: .*(No route|unreachable)", SOON + SLACK)
        bed[2].space.ip("route del unreachable 10.77.0.1/32")
        job.until_works(seconds=2 * FORMING)
        job.finish()
        job.expect(0)

    def test_t4_one_connection_falls_silent(self):
        """A gateway has forgotten it. Another one is made, before anybody is missed, for which a busy machine has some 2.7 s."""
        limit = 4.0
        job = self.job(conf="keep_alive_interval=2,keep_alive_max_attempt=2")
        self.at(MIDDLE, job)
        listed = job.bed[2].run("sh", "-c", "cat /proc/net/tcp").stdout
        ports = {int(local.partition(":")[2], 16) for local, remote, state in re.findall(r"\d+: (\S+) (\S+) (\S+)", listed)
                 if remote.endswith(f":{29400:04X}") and state == "01"}
        self.assertTrue(ports)
        job.bed.rules(*(f"tcp {side} {port} drop" for port in ports for side in ("sport", "dport")))
        time.sleep(1.2 * limit)
        self.assertEqual(job.until_works(), 0, job.log())
        job.bed.heal()
        job.finish()
        job.expect(0)

    def test_lost_packets(self):
        """One in twenty: slower, and nothing else."""
        bed = self.bed(3)
        bed.rules("numgen random mod 100 < 5 drop")
        job = self.job(bed=bed, worker=("--steps", "20"), conf="keep_alive_interval=2,keep_alive_max_attempt=3")
        job.expect(0, seconds=60)

    def test_slow_links(self):
        bed = self.bed(3)
        for machine in bed:
            machine.rate("1mbit")
        self.job(bed=bed, worker=("--steps", "5")).expect(0)

    def test_t5_clocks(self):
        """Wall clocks years apart, monotonic ones days, as in all tests; in the end two machines wake that were suspended beyond L."""
        bed = self.bed(3)
        job = self.job(bed=bed, start=False)
        for machine, ahead in zip(bed, (0, 3600, -100_000_000)):
            clock = {"LD_PRELOAD": os.environ["LOCKSTEP_SHIFTED_CLOCK"], "LOCKSTEP_TEST_CLOCK": ahead,
                     "LOCKSTEP_TEST_SUSPEND": f"/srv/{machine.name}.suspended"}
            told = float(machine.run(sys.executable, "-c", "import time; print(time.time())", env=clock).stdout)
            self.assertAlmostEqual(told - time.time(), ahead, delta=60)
            job.start(machine, env=clock)
        self.at(MIDDLE, job)
        self.kill_worker(job.worker_on(bed[3]))
        job.until_works(1)
        job.bed.isolate(2)
        time.sleep(LIMIT + 1)
        job.bed.heal()
        job.until_works(2, seconds=LIMIT + 2 * FORMING)
        for attempt, sleeper in enumerate((bed[3], bed[1]), start=3):  # a node, and the leader
            (bed.folder / f"{sleeper.name}.suspended").touch()
            job.until_works(attempt)
            job.until_said(sleeper, r"silent for 6\d\.\d s|cut off from the run's other nodes")
        job.finish()
        job.expect(0)

    def test_floods_at_a_running_launchers_port(self):
        """Where all ports are one: the leader's, and its store's, which has 64 places: the run's machines find theirs."""
        bed = self.bed(3)
        job = self.job(bed=bed, machines=(1, 2), files=128,
                       options={"rdzv-endpoint": None, "rdzv-id": None, "master-addr": "host1", "master-port": 29500})
        job.until_works()
        before = memory_of(job.agents[bed[1]])
        flood = bed[3].start(sys.executable, "-SEc", FLOOD, bed[1].v4, 29500, LIMIT, 500, stdout=-1, text=True)
        job.until_said(bed[1], "the workers' store (has 64|takes no more) connections")
        self.assertEqual(bed[2].run(sys.executable, "-SEc", CLIENTS, bed[1].v4, 29500, 20).stdout, "20\n")
        self.assertGreater(int(flood.communicate(timeout=20 + SOON)[0]), 500)
        self.assertLess(memory_of(job.agents[bed[1]]) - before, 64 << 20)
        self.assertEqual(job.until_works(more=10), 0, job.log())
        self.assertLess(sum(len(lines) for lines in job.warnings().values()), 4, job.warnings())
        self.ends_well(job)

    def test_t6_few_descriptors(self):
        bed = self.bed(1)
        job = self.job(bed=bed, start=False)
        command = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", *job.command(bed[1], nnodes=400)]
        agent = bed[1].start(*command, env=job.environment(), stderr=-1, text=True)
        told = agent.communicate(timeout=SOON)[1]
        self.assertEqual(agent.returncode, 69, told)
        self.assertRegex(told, r"error: .*400 nodes needs \d{3} descriptors, and may have 64 here.*ulimit -Hn \d{3}")


if __name__ == "__main__":
    parallel.main()
