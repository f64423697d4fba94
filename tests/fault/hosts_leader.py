"""The launcher that leads a run on several hosts dies, with and without its host; the others elect another one.

    environment: harness.py
"""
import signal
import time
import unittest

import harness
from hosts_group import RESUMABLE, Group, name_of, send, send_all
from hosts_ring import HostsRuns, kill


class LeaderTest(HostsRuns):
    def kill_leader(self, steps=50):
        self.wait_for_steps(steps)
        self.nodes[0].kill()

    def elected(self):
        """The node that leads now, once it has taken out the first one."""
        def found():
            return next((node for node in self.nodes[1:] if "node 0 is lost (" in node.text()), None)
        node = self.group.until(found, "the loss of node 0", may_end=True)
        self.assertIn("this node leads the run from now on", node.text())
        return node

    def test_its_launcher_alone(self):
        self.start()
        self.wait_for_steps(50)
        kill(self.nodes[0].process.pid)
        self.assertEqual(self.ends(), [-signal.SIGKILL, 0, 0], self.told())
        self.assertIn("node 0 is lost (its launcher has ended)", self.elected().text())
        self.expect_exact((1, 2))

    def test_its_host(self):
        self.start()
        self.kill_leader()
        self.assertEqual(self.ends(), [-signal.SIGKILL, 0, 0], self.told())
        self.expect_exact((1, 2))

    def test_and_then_a_worker_of_each_host(self):
        """Who leads now replaces them, by the budget that is left, and the next incident has the next number."""
        self.epochs = 10
        self.start()
        self.wait_for_steps(50)
        begun = self.nodes[1].committed()
        kill(self.nodes[2].worker_pids()[0])
        self.group.until_said(0, "replacement joined")
        self.kill_leader()
        leader = self.elected()
        for node in self.nodes[1:]:
            kill(node.worker_pids()[0])
        is_given_back = self.nodes[1].committed() - begun > 90  # a charge, after 100 transactions: on a busy machine
        self.assertEqual(self.ends(), [-signal.SIGKILL, 0, 0], self.told())
        told = leader.text()
        self.assertIn("incident 2", told)
        self.assertRegex(told, r"\([89] of 10 left\)" if is_given_back else r"\(8 of 10 left\)")
        self.expect_exact((1, 2))

    def test_of_two_hosts_the_first_cannot_go_on_without(self):
        """Of two the first goes on alone, the other one ends resumable."""
        self.group = Group(self.id(), (2, 2), self.ring, self.options)
        self.addCleanup(self.group.end)
        self.start()
        self.kill_leader()
        self.assertEqual(self.ends(), [-signal.SIGKILL, RESUMABLE], self.told())
        self.assertIn("too few to go on", self.nodes[1].text())
        self.nothing_is_left()

    def test_who_does_not_answer_at_the_start_is_not_waited_for(self):
        """It has come, and stands still as the last one comes."""
        self.options = ("--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=2")
        self.group = Group(self.id(), self.WORKERS, self.ring, self.options)
        self.addCleanup(self.group.end)
        for node in self.nodes[:2]:
            node.start()
        harness.until(lambda: "waiting for node 2;" in self.nodes[0].text(), "node 1 at the endpoint")  # said after 5 s
        send(self.nodes[1].process.pid, signal.SIGSTOP)
        self.nodes[2].start()
        self.group.until_said(0, "node 1 is lost")
        send(self.nodes[1].process.pid, signal.SIGCONT)
        self.assertEqual(self.ends(), [0, RESUMABLE, 0], self.told())
        self.assertIn("this node was taken out of the run", self.nodes[1].text())
        self.expect_exact((0, 2))

    def test_it_stands_still_and_then_the_next_one_too(self):
        """It is missed once, and taken out when another one leads. Of the two that are left the first is soon alone, behind a pause."""
        self.options = ("--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=2")
        self.group = Group(self.id(), self.WORKERS, self.ring, self.options)
        self.addCleanup(self.group.end)
        self.epochs = 40
        self.start()
        self.wait_for_steps(50)
        first = self.nodes[0]
        send(first.process.pid, signal.SIGSTOP)
        leader = self.elected()
        self.assertIn("node 0 is lost (silent for 2000 ms)", leader.text())
        send(first.process.pid, signal.SIGCONT)
        self.group.until(lambda: first.process.poll() is not None, "its end", may_end=True)
        self.assertIn("this node was taken out of the run, which goes on without it", first.text())
        stays, goes = self.nodes[1:]  # the first of the two can go on alone; it leads, or the other one does
        done = stays.committed()
        self.group.until(lambda: stays.committed() > done + 20, "steps without it", may_end=True)
        send_all(goes.pids(), signal.SIGSTOP)
        time.sleep(0.8)
        send(stays.process.pid, signal.SIGSTOP)
        time.sleep(2.2)  # the other one has not been heard for L, and each timer is due
        send(stays.process.pid, signal.SIGCONT)
        self.group.until(lambda: "node 2 is lost (silent for 2000 ms)" in stays.text(), "the other one's loss", may_end=True)
        goes.kill()
        self.assertEqual(self.ends(), [RESUMABLE, 0, -signal.SIGKILL], self.told())
        self.expect_exact((1,))

    def test_the_next_one_has_a_fresh_board(self):
        """Its only worker has died, and the newcomer does not know the run's plan yet: the others go on all the same."""
        self.epochs = 15
        self.start(options={1: ("--stop-grace", "60")})
        self.wait_for_steps(50)
        heir, other = self.nodes[1:]
        before = heir.children()
        kill(heir.worker_pids()[0])
        end, late = time.monotonic() + 30, None
        while not late and time.monotonic() < end:  # without a pause: it knows the plan some milliseconds later
            late = next((pid for pid in heir.children() - before if name_of(pid) == "ring"), None)
        send(late, signal.SIGSTOP)
        self.nodes[0].kill()
        self.group.until(lambda: "this node leads" in heir.text(), "its lead", may_end=True)
        done = other.committed()
        self.group.until(lambda: other.committed() > done + 5, "steps under node 1", seconds=30, may_end=True)
        send(late, signal.SIGCONT)
        self.assertEqual(self.ends(), [-signal.SIGKILL, 0, 0], self.told())
        self.expect_exact((1, 2))

    def test_and_the_next_one(self):
        """Of four hosts, one after the other; the change is in force before the next one goes."""
        self.group = Group(self.id(), (1, 1, 1, 1), self.ring, self.options)
        self.addCleanup(self.group.end)
        self.epochs = 20
        self.start()
        self.kill_leader()
        leader = self.elected()
        done = leader.committed()
        self.group.until(lambda: leader.committed() > done + 1, "steps", may_end=True)
        leader.kill()
        self.assertEqual(self.ends(), [-signal.SIGKILL if node in (self.nodes[0], leader) else 0 for node in self.nodes], self.told())
        self.expect_exact([node.rank for node in self.nodes[1:] if node is not leader])

    def test_and_is_started_again(self):
        """While the others go on without it: they tell it so, at the endpoint."""
        self.epochs = 60
        self.start()
        self.kill_leader()
        self.elected()
        self.nodes[0].start()
        self.assertEqual(self.nodes[0].process.wait(60), 69, self.told())
        self.assertIn("the run goes on without this node: ", self.nodes[0].text())
        self.nodes[1].process.send_signal(signal.SIGTERM)
        self.assertEqual(self.ends(), [69, 143, 143], self.told())


if __name__ == "__main__":
    unittest.main(verbosity=2)
