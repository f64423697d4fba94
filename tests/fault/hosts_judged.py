"""Linked programs on two hosts that compute a share twice and otherwise: newcomers, heirs, and who looks at them from the other host.

    environment: harness.py
"""
import re
import signal
import time
import unittest

from harness import built
from hosts_group import Group, is_alive, is_stopped, send


class JudgedTest(unittest.TestCase):
    """A newcomer's shares are computed again by older workers of another host: its own may have none any more."""

    def end(self, name):
        """Host 1 has two workers; one is replaced, and the other dies in the newcomer's first step, with its own shares done."""
        group = Group(f"{self.id()}-{name}", (1, 2), lambda output: [built("rehearsal_worker"), name, output])
        self.addCleanup(group.end)
        group.start({1: ("--stop-grace", "60", "--inject", "kill rank=2 txn=6; stop rank=new host=any phase=optimizer")})
        newcomer = group.until_stopped(1)
        time.sleep(0.5)
        group.kill([pid for pid in group.hosts[1].worker_pids() if pid != newcomer and is_alive(pid)])
        send(newcomer, signal.SIGCONT)
        codes = group.codes()
        self.assertEqual(group.deaths, 1, group.told())
        self.assertNotIn("nobody is left who knows", group.told())
        return codes, group

    def test_one_that_differs_ends_the_run(self):
        codes, group = self.end("joined-target")
        self.assertEqual(codes, [2, 2], group.told())
        self.assertRegex(group.told(), ", which has just joined the run|, which has died since, and ")  # a judge's words, or an heir's
        self.assertRegex(group.told(), r" in rank \d on node [01]\b.*\b in rank \d on node [01]\b")

    def test_one_that_does_not_goes_on(self):
        codes, group = self.end("joined")
        self.assertEqual(codes, [0, 0], group.told())
        hashes = re.findall(r"weights sha256 (\w+)", group.told())
        self.assertEqual(len(set(hashes)), 1, group.told())

    def test_who_comes_in_knows_what_is_computed_twice(self):
        """It waits for what members have of step 64, which is one of theirs to look again: a share is another host's to compute."""
        for name, died, waits in (("updates", 124, 127), ("sits-out", 62, 63)):
            group = Group(f"{self.id()}-{name}", (1, 2), lambda output: [built("unseen_worker"), name, output])
            self.addCleanup(group.end)
            group.start({0: ("--stop-grace", "60", "--inject", f"stop host=any txn={waits} phase=exchange"),
                         1: ("--inject", f"kill host=any txn={died} phase=backward; kill host=any txn=20")})
            worker = group.until_stopped(0)
            time.sleep(0.5)
            send(worker, signal.SIGCONT)
            self.assertEqual(group.codes(), [0, 0], group.told())
            hashes = re.findall(r"weights sha256 (\w+)", group.told())
            self.assertEqual(len(set(hashes)), 1, group.told())

    def test_a_host_of_newcomers_alone_is_looked_at_by_another(self):
        """What they count themselves begins to matter long after they have been compared, and they count alike."""
        group = Group(self.id(), (1, 2), lambda output: [built("unseen_worker"), "epochs", output], ("--max-replacements", "99"))
        self.addCleanup(group.end)
        group.start()
        group.until_committed(20)
        for _ in range(2):
            group.kill([group.hosts[1].all_workers()[0]])
        group.hosts[1].all_workers()
        self.assertEqual(group.codes(), [2, 2], group.told())
        self.assertIn("the loss of virtual worker", group.told())

    def test_an_heir_on_another_host_is_compared_with_the_dead(self):
        """Of host 1's two workers one has sent what it made of its share, the other has not; host 0's worker takes over both, and they
        keep pools of their own."""
        group = Group(self.id(), (1, 2), lambda output: [built("rehearsal_worker"), "own-pool-later", output])
        self.addCleanup(group.end)
        group.start({1: ("--stop-grace", "60", "--inject", "stop rank=1 txn=12 phase=forward; stop rank=2 txn=12 phase=exchange")})
        workers = group.until(lambda: (found := [pid for pid in group.hosts[1].pids() if is_stopped(pid)])[1:] and found, "two stops")
        time.sleep(0.5)  # until the other link has all of it
        group.kill(workers)
        self.assertEqual(group.codes(), [2, 2], group.told())
        self.assertRegex(group.told(), r": the loss of virtual worker 2 is .* in rank 2 on node 1, which has died since, "
                                       r".* in rank 0 on node 0, which took it over")
        group.check_nothing_is_left()


if __name__ == "__main__":
    unittest.main(verbosity=2)
