#!/usr/bin/env python3
"""Two hosts of one exact run that lose each other, with a lock file: machines of namespaces, which share a directory. Either survives the
other; of two that are cut off from each other exactly one goes on.

    hosts_tie_break.py [TEST...]    (environment: harness.py)    Exit 77: skipped, no machines here.
"""
import signal
import time
import unittest

from hosts_group import RESUMABLE
from hosts_machines import GroupOnMachines
from hosts_programs import language_model, wanted
import hosts
from nodes import parallel

KILLED, USAGE = -signal.SIGKILL, 2
QUICK = ("--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=2")
HAS = "this node has the lock file"


class TieBreak(unittest.TestCase):
    def setUp(self):
        self.bed = hosts.Bed(2)
        self.addCleanup(self.bed.close)
        self.locks = self.bed.folder / "locks"
        self.locks.mkdir()
        self.group = GroupOnMachines(self.bed, self.id(), (1, 1), language_model, (*QUICK, "--tie-break", "lockfile=/srv/locks"))
        self.addCleanup(self.group.end)
        self.hosts = self.group.hosts

    def start(self, until=20):
        self.group.start()
        self.group.until_committed(until)

    def locks_left(self):
        return sorted(path.name for path in self.locks.iterdir())

    def survives(self, rank, locks=0):
        """As one host would have it. A launcher that is killed leaves what it has made."""
        self.group.expect_exact([rank], wanted(language_model))
        left = [name for name in self.locks_left() if name.startswith("lockstep-set-") and name.count("-") == 2]
        self.assertEqual(len(left), locks, self.locks_left())

    def test_the_second_goes_on_without_the_first(self):
        self.start()
        self.hosts[0].kill()
        self.group.expect([KILLED, 0])
        self.assertIn(HAS, self.hosts[1].text())
        self.survives(1)

    def test_the_first_goes_on_without_the_second(self):
        self.start()
        self.hosts[1].kill()
        self.group.expect([0, KILLED])
        self.assertIn(HAS, self.hosts[0].text())
        self.survives(0)

    def test_cut_off_from_each_other_one_goes_on(self):
        self.start()
        self.bed.cut([1], [2])
        codes = self.group.codes()
        self.assertEqual(sorted(codes), [0, RESUMABLE], self.group.told())
        self.assertGreater(self.bed.dropped(), 0)
        winner = codes.index(0)
        self.assertIn(HAS, self.hosts[winner].text())
        self.assertIn(f"node {winner} has the lock file", self.hosts[1 - winner].text())
        self.group.check_nothing_is_left()
        self.survives(winner)
        self.assertEqual(self.locks_left(), [])

    def test_links_alone(self):
        """Launchers hear each other: the one that leads asks for the file, and goes on."""
        self.start()
        first, second = self.bed[1].v4, self.bed[2].v4
        port = self.group.endpoint.rpartition(":")[2]
        self.bed.rules(f"ip saddr {first} ip daddr {second} tcp sport != {port} counter drop",
                       f"ip saddr {second} ip daddr {first} tcp dport != {port} counter drop")
        self.group.expect([0, RESUMABLE])
        self.assertIn(HAS, self.hosts[0].text())
        self.survives(0)
        self.assertEqual(self.locks_left(), [])

    def test_nothing_is_left_of_a_run_that_ends_in_order(self):
        self.group.start()
        self.group.until(self.locks_left, "what launchers leave as long as they live")
        self.group.expect([0, 0])
        for host in self.hosts:
            self.assertIn("the one goes on that makes the lock file in '/srv/locks'", host.text())
            self.assertNotIn(HAS, host.text())
        self.assertEqual(self.locks_left(), [])

    def test_without_the_directory_it_waits(self):
        """Until it is there again."""
        self.start()
        aside = self.locks.rename(self.bed.folder / "aside")
        self.hosts[1].kill()
        self.group.until_said(0, "this node waits for the lock file.*missing", may_end=True)
        time.sleep(1)  # the step under way may still be committed
        done = self.hosts[0].committed()
        self.group.until_said(0, "(?s)(this node waits for the lock file.*){2}", may_end=True)  # after 6 s; without the option it had ended
        self.assertIsNone(self.hosts[0].process.poll(), self.group.told())
        self.assertEqual(self.hosts[0].committed(), done)
        aside.rename(self.locks)
        self.group.expect([0, KILLED])
        self.survives(0)

    def test_who_waits_ends_by_a_signal(self):
        self.start()
        self.locks.rename(self.bed.folder / "aside")
        self.hosts[1].kill()
        self.group.until_said(0, "this node waits for the lock file", may_end=True)
        self.hosts[0].process.send_signal(signal.SIGTERM)
        self.group.expect([128 + signal.SIGTERM, KILLED])

    def test_a_directory_that_one_does_not_have(self):
        """It is refused at once, and may come again; the other one waits for it."""
        self.hosts[0].start()
        self.hosts[1].start(("--tie-break", "lockfile=/srv/none"))
        self.hosts[1].process.wait(30)
        self.assertEqual(self.hosts[1].process.returncode, USAGE, self.group.told())
        self.assertRegex(self.hosts[1].text(), "--tie-break lockfile: '/srv/none': it has to be a directory that all nodes share: No such file")
        self.hosts[1].start()
        self.group.expect([0, 0])

    def test_a_directory_of_each_machine(self):
        for host in self.hosts:
            host.start(("--tie-break", "lockfile=/tmp"))
        self.group.expect([USAGE, USAGE])
        for host in self.hosts:
            self.assertIn(f"'/tmp' is not the directory that node {1 - host.rank} has", host.text())
            self.assertEqual(host.committed(), 0)

    def test_who_is_not_given_it(self):
        self.group.options = QUICK
        self.hosts[0].start(("--tie-break", "lockfile=/srv/locks"))
        self.hosts[1].start()
        self.hosts[1].process.wait(30)
        self.assertEqual(self.hosts[1].process.returncode, USAGE, self.group.told())
        for host in self.hosts:
            self.assertRegex(host.text(), "--tie-break differs: not given on .*, 'lockfile=/srv/locks' on .*; give the same on all nodes")


if __name__ == "__main__":
    parallel.main(threads=4)
