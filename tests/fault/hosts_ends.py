#!/usr/bin/env python3
"""How runs over several hosts end where the network is cut just then: machines of namespaces, one exact run. Nobody ends before all know
that the run has, and how; a cut that is healed in time costs nobody anything.

    hosts_ends.py [TEST...]    (environment: harness.py)    Exit 77: skipped, no machines here.
"""
import signal
import time
import unittest

from hosts_group import RESUMABLE, name_of
from hosts_machines import GroupOnMachines
from hosts_programs import held, language_model, may_end, wanted
import hosts
from nodes import parallel

WRONG_DATA, TERMINATED = 65, 128 + signal.SIGTERM
LIMIT_S = 4.0  # L
IN_TIME_S = 1.5  # more than the second in which a launcher that ends says goodbye, and than L / 3, when nodes dial anew
QUICK = ("--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=2")
CALM, CALM_LIMIT_S = ("--rdzv-conf", "keep_alive_interval=2,keep_alive_max_attempt=3"), 6.0
PROGRAMS = {held: "updates_worker", language_model: "language_model"}
UNHEARD = "the launcher that leads has not been heard"


class Ends(unittest.TestCase):
    def start(self, program=held, options=("--rdzv-conf", "keep_alive_interval=2,keep_alive_max_attempt=2")):
        """Three hosts."""
        self.bed = hosts.Bed(3)
        self.addCleanup(self.bed.close)
        self.program = program
        self.group = GroupOnMachines(self.bed, self.id(), (1, 1, 1), program, options)
        self.addCleanup(self.group.end)
        self.group.start()

    def start_to_the_end(self, **more):
        """All have done their steps; their workers are still there."""
        self.start(**more)
        self.group.until(lambda: all((host.output / "result.json").exists() for host in self.group.hosts), "all results")

    def stop_in_order(self):
        """The same."""
        self.start()
        self.group.until_committed(10)
        self.group.hosts[0].process.send_signal(signal.SIGTERM)
        def settled():
            before = [host.committed() for host in self.group.hosts]
            time.sleep(0.3)
            return len(set(before)) == 1 and before == [host.committed() for host in self.group.hosts]
        self.group.until_said(0, "the workers leave")
        self.group.until(settled, "the last step")

    def end_by_an_error(self):
        """Host 1's worker ends the run; the last host's launcher is paused, so that the run's end waits for it."""
        self.start(program=language_model, options=(*CALM, "--inject", "exit=65 rank=1 txn=60 phase=backward"))
        self.group.until_committed(5)
        self.group.hosts[2].process.send_signal(signal.SIGSTOP)
        self.group.until_said(0, "exit 65")
        self.until_empty(0, 1)

    def until_empty(self, *ranks):
        """No workers there, and the leader knows it."""
        for rank in ranks:
            host = self.group.hosts[rank]
            self.group.until(lambda: [name_of(pid) for pid in host.pids()].count(PROGRAMS[self.program]) < 2, f"the end of host {rank}'s workers")  # one forks them
        for _ in range(2):  # who answers has had its turn: each launcher, then the leader
            for rank in (*(rank for rank in ranks if rank != 0), 0):
                self.group.hosts[rank].ask("status", self.group.hosts[rank].output_there(), "--json")
        time.sleep(0.3)

    def release(self, *ranks):
        for rank in ranks:
            may_end(self.group.hosts[rank].output)

    def cut(self, a, b, one_way=False):
        (self.bed.cut_one_way if one_way else self.bed.cut)([a + 1], [one + 1 for one in (b if isinstance(b, tuple) else (b,))])

    def heal_in_time(self):
        time.sleep(IN_TIME_S)
        self.assertGreater(self.bed.dropped(), 0)
        self.bed.heal()

    def cut_from_the_end(self, a, b, one_way=False):
        """Host 1 has nobody any more, and does not hear, or is not heard, of the run's end."""
        self.release(1)
        self.until_empty(1)
        self.cut(a, b, one_way)
        self.release(0, 2)

    def expect(self, *codes):
        self.group.expect(codes)
        self.assertNotIn(" is lost (", self.group.hosts[0].text(), self.group.told())
        exact = [rank for rank in range(3) if self.program is held and (self.group.hosts[rank].output / "result.json").exists()]
        self.group.expect_exact(exact, wanted(held))

    def said_by(self, rank, what):
        self.assertIn(what, self.group.hosts[rank].text(), self.group.told())

    def not_said_by(self, rank, what):
        self.assertNotIn(what, self.group.hosts[rank].text(), self.group.told())

    def test_a_cut_from_the_leader_that_is_healed_in_time(self):
        for a, b, one_way in ((0, 1, False), (0, 1, True), (1, 0, True)):
            with self.subTest(a=a, b=b, one_way=one_way):
                self.start_to_the_end()
                self.cut_from_the_end(a, b, one_way)
                self.heal_in_time()
                self.expect(0, 0, 0)
                self.not_said_by(0, "may not know")

    def test_a_cut_that_is_healed_in_time_as_the_run_stops_in_order(self):
        self.stop_in_order()
        self.cut_from_the_end(0, 1, one_way=True)
        self.heal_in_time()
        self.expect(*3 * [TERMINATED])

    def test_a_cut_that_is_healed_in_time_as_the_run_fails(self):
        self.end_by_an_error()
        self.cut(0, 1, one_way=True)
        self.group.hosts[2].process.send_signal(signal.SIGCONT)
        self.heal_in_time()
        self.expect(*3 * [WRONG_DATA])
        self.said_by(1, "the run ends with code 65 on all nodes")

    def test_a_cut_between_others_in_the_last_steps(self):
        self.start()
        self.group.until_committed(18)
        self.cut(1, 2)
        self.heal_in_time()
        self.release(0, 1, 2)
        self.expect(0, 0, 0)

    def test_a_cut_between_others_for_good(self):
        """All steps are done, and no link is needed."""
        self.start_to_the_end(options=QUICK)
        self.cut(1, 2)
        time.sleep(3.5)
        self.release(0, 1, 2)
        self.expect(0, 0, 0)

    def test_a_cut_from_all_others_for_good(self):
        self.start_to_the_end()
        self.cut_from_the_end(1, (0, 2))
        begun = time.monotonic()
        self.group.hosts[0].process.wait(20)
        self.assertGreater(time.monotonic() - begun, 0.5 * LIMIT_S)
        self.expect(0, RESUMABLE, 0)
        self.said_by(0, "node 1 may not know that the run has ended")
        self.said_by(1, UNHEARD)

    def test_who_knows_it_ends_well_though_the_leader_does_not_hear_of_it(self):
        self.start_to_the_end()
        self.cut_from_the_end(1, 0, one_way=True)
        self.expect(0, 0, 0)
        self.said_by(0, "node 1 may not know that the run has ended")

    def test_though_the_leader_dies_all_others_hear_of_it(self):
        self.start_to_the_end()
        self.cut_from_the_end(0, 1)
        self.until_empty(0, 2)
        self.group.hosts[0].kill()
        self.expect(-signal.SIGKILL, 0, 0)

    def test_who_knows_it_ends_well_though_it_is_alone(self):
        self.start_to_the_end()
        self.cut_from_the_end(1, (0, 2))
        self.until_empty(0, 2)
        self.group.hosts[0].kill()
        self.expect(-signal.SIGKILL, RESUMABLE, 0)

    def test_who_was_not_heard_is_heard_soon_after_a_cut(self):
        """What was sent before waits for the kernel, which tries less and less often: after some 3 s, then after 6."""
        self.start_to_the_end(options=CALM)
        for seconds in (3.1, 3.2, 3.3):
            self.cut(1, 0, one_way=True)
            time.sleep(seconds)
            self.assertGreater(self.bed.dropped(), 0)
            self.bed.heal()
            time.sleep(0.3 * CALM_LIMIT_S)
        self.release(0, 1, 2)
        self.expect(0, 0, 0)

    def test_a_signal_ends_the_wait(self):
        self.start_to_the_end(options=("--rdzv-conf", "keep_alive_interval=5,keep_alive_max_attempt=6"))
        self.cut_from_the_end(0, 1)
        self.until_empty(0, 2)
        self.assertIsNone(self.group.hosts[0].process.poll())
        for rank in (0, 2):
            self.group.hosts[rank].process.send_signal(signal.SIGTERM)
            self.assertEqual(self.group.hosts[rank].process.wait(10), 0, self.group.told())


if __name__ == "__main__":
    parallel.main(threads=4)
