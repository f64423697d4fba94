"""Linked programs on several hosts: three launchers on this machine, one exact run, whatever is killed.

    environment: harness.py
"""
import json
import re
import resource
import signal
import subprocess
import time
import unittest

from harness import LOCKSTEP, built, environment
from hosts_group import Group, send
from hosts_ring import HostsRuns, kill


class HostsTest(HostsRuns):
    def test_undisturbed(self):
        self.start()
        self.assertEqual(self.ends(), [0, 0, 0], self.told())
        sums = "a node sends up to 1.5 times the fewest bytes: its part of the 6 virtual workers takes 2 sums"  # 3, 1 and 2 of them
        self.assertEqual([node.text().count(sums) for node in self.nodes], [1, 0, 0])
        self.expect_exact((0, 1, 2))

    def test_a_hosts_only_worker_is_killed(self):
        self.epochs = 10
        self.start()
        self.wait_for_steps(50)
        kill(self.nodes[1].worker_pids()[0])
        self.assertEqual(self.ends(), [0, 0, 0], self.told())
        self.assertIn("node 1 has no worker left that could go on", self.nodes[0].text())
        self.expect_exact((0, 1, 2))

    def test_a_link_is_killed(self):
        self.start()
        self.wait_for_steps(50)
        self.assertTrue(kill(self.nodes[1].link()))
        self.assertEqual(self.ends(), [0, 0, 0], self.told())
        self.assertIn("was ended by SIGKILL; another one takes its place", self.nodes[1].text())
        self.expect_exact((0, 1, 2))

    def test_a_whole_host_is_killed(self):
        self.start()
        self.wait_for_steps(50)
        self.nodes[2].kill()
        self.assertEqual(self.ends(), [0, 0, -signal.SIGKILL], self.told())
        self.assertRegex(self.nodes[0].text(), r"node 2 is lost \(its launcher has (ended|closed its connection)\)")
        self.expect_exact((0, 1))

    def test_the_same_command_goes_on_after_a_signal_to_one_launcher(self):
        self.start()
        self.wait_for_steps(50)
        self.nodes[1].process.send_signal(signal.SIGTERM)
        self.assertEqual(self.ends(), [143, 143, 143], self.told())
        for node in self.nodes:
            self.assertIn("stopped by SIGTERM", node.text(), self.told())
        self.start()
        self.assertEqual(self.ends(), [0, 0, 0], self.told())
        self.assertIn("resuming from", self.told())
        self.expect_exact((0, 1, 2))

    def test_a_host_is_killed_as_the_run_is_to_stop(self):
        """Members finish their step first, for which they need its shares."""
        self.options = ("--shutdown-timeout", "20")
        self.start()
        self.wait_for_steps(50)
        self.nodes[2].process.send_signal(signal.SIGSTOP)
        for pid in set(self.nodes[2].pids()) - {self.nodes[2].process.pid}:
            kill(pid)
        self.nodes[0].process.send_signal(signal.SIGTERM)
        kill(self.nodes[2].process.pid)
        self.assertEqual(self.ends(), [143, 143, -signal.SIGKILL], self.told())
        self.assertNotIn("(--shutdown-timeout)", self.nodes[0].text())
        self.nothing_is_left()

    def test_a_hosts_only_worker_is_killed_as_the_run_is_to_stop(self):
        """Its launcher, which stands still meanwhile, finds it dead when the run stops already."""
        self.options = ("--shutdown-timeout", "20")
        self.start()
        self.wait_for_steps(50)
        launcher = self.nodes[1].process
        worker = self.nodes[1].worker_pids()[0]
        launcher.send_signal(signal.SIGSTOP)
        kill(worker)
        self.nodes[0].process.send_signal(signal.SIGTERM)
        self.group.until_said(0, "stopped by SIGTERM")
        launcher.send_signal(signal.SIGCONT)
        self.assertEqual(self.ends(), [143, 143, 143], self.told())
        self.assertNotIn("(--shutdown-timeout)", self.told())
        self.nothing_is_left()
        self.assertGreater(self.nodes[0].newest_checkpoint(), self.nodes[1].newest_checkpoint())

    def test_the_leaders_launcher_is_paused(self):
        """Beyond L, which it alone was given: another one leads when it wakes, and has taken it out."""
        self.epochs = 20
        self.start(options={0: ("--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=2")})
        self.wait_for_steps(50)
        self.nodes[0].process.send_signal(signal.SIGSTOP)
        self.group.until_lost(0)
        self.nodes[0].process.send_signal(signal.SIGCONT)
        self.assertEqual(self.ends(), [75, 0, 0], self.told())
        self.assertIn("this node was taken out of the run", self.nodes[0].text())
        self.expect_exact((1, 2))

    def test_the_leaders_launcher_is_paused_briefly(self):
        self.options, self.epochs = ("--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=4"), 20
        self.start()
        self.wait_for_steps(50)
        self.nodes[0].process.send_signal(signal.SIGSTOP)
        time.sleep(1.6)
        self.nodes[0].process.send_signal(signal.SIGCONT)
        self.assertEqual(self.ends(), [0, 0, 0], self.told())
        self.assertNotIn("is lost", self.told())
        self.expect_exact((0, 1, 2))

    def test_a_time_limit(self):
        """All end behind the step that a table names, whoever is killed meanwhile: with the bits of a run of so many steps."""
        def program(output, limit="6s"):
            return [built("ring"), "--virtual-workers", "6", "--max-duration", limit, "--output", str(output)]
        self.group = Group(self.id(), self.WORKERS, program)
        self.addCleanup(self.group.end)
        self.start()
        self.wait_for_steps(10)
        kill(self.nodes[0].worker_pids()[0])
        self.nodes[2].kill()
        self.assertEqual(self.ends(), [0, 0, -signal.SIGKILL], self.told())
        ends = [node.ending() for node in self.nodes[:2]]
        self.assertEqual(ends[0], ends[1])
        one = self.group.folder / "one"
        subprocess.run([LOCKSTEP, "run", "--standalone", *program(one, f"{ends[0]['hashes']['steps']}ba")], check=True, env=environment(),
                       capture_output=True, timeout=Group.LIMIT_S)
        self.assertEqual((one / "ledger.jsonl").read_bytes(), (self.nodes[0].output / "ledger.jsonl").read_bytes())
        self.assertEqual(json.loads((one / "result.json").read_text())["state_sha256"], ends[0]["hashes"]["state_sha256"])
        self.nothing_is_left()

    def test_a_launcher_is_paused_for_longer_than_its_board_has_room(self):
        """For less than L: its workers wait for it, and the other hosts' for them. Nothing is lost that it had not recorded."""
        self.options, self.epochs = ("--rdzv-conf", "keep_alive_interval=20,keep_alive_max_attempt=3"), 20
        self.start()
        self.wait_for_steps(50)
        self.nodes[2].process.send_signal(signal.SIGSTOP)
        full = self.nodes[2].committed() + 900  # of 1,024
        seen = {}  # when so many transactions were first there
        def stands_still():
            done = self.nodes[0].committed()
            return done > full and time.monotonic() - seen.setdefault(done, time.monotonic()) > 1
        self.group.until(stands_still, "a standstill")
        self.nodes[2].process.send_signal(signal.SIGCONT)
        self.assertEqual(self.ends(), [0, 0, 0], self.told())
        self.assertNotIn("is lost", self.told())
        self.expect_exact((0, 1, 2))


class ReplacedTest(HostsRuns):
    """Workers that die on any host are replaced on theirs."""
    WORKERS = (2, 2, 2)

    def setUp(self):
        super().setUp()
        self.options = ("--max-replacements", "99")

    def expect_all_replaced(self, deaths):
        self.assertEqual(self.ends(), [0, 0, 0], self.told())
        told = self.nodes[0].text()
        self.assertEqual(told.count("died (SIGKILL"), deaths, self.told())
        self.assertEqual(told.count("a replacement is started"), deaths, self.told())
        self.expect_exact((0, 1, 2))

    def test_again_and_again(self):
        """One of each host in one step; the newest of each; then the eldest, until nobody is left who was there at the start."""
        self.epochs = 20
        self.start()
        self.wait_for_steps(20)
        began = {pid for node in self.nodes for pid in node.all_workers()}
        self.group.kill([node.all_workers()[-1] for node in self.nodes])
        for node in self.nodes:
            node.all_workers()
        for node in self.nodes:
            status = [subprocess.run([LOCKSTEP, "status", node.output, *more], capture_output=True, text=True).stdout
                      for more in ((), ("--json",))]
            self.assertIn(f"workers of node {node.rank}, of 3 nodes:", status[0])
            self.assertRegex(status[0], r"replacements left 9\d of 99")
            found = json.loads(status[1])
            self.assertEqual((found["node"], found["nodes"], found["world_size"]), (node.rank, 3, 6))
            self.assertEqual([member["uid"] for member in found["members"]], [1, 3])
        for place in (-1, -1, -1, 0, 0, 0):
            for node in self.nodes:
                self.group.kill([node.all_workers()[place]])
        self.assertFalse(began & {pid for node in self.nodes for pid in node.all_workers()})
        self.expect_all_replaced(21)

    def test_as_many_as_are_asked_for(self):
        """Of the launcher that leads."""
        self.epochs = 12
        self.start()
        self.wait_for_steps(20)
        for workers, each in ((3, 1), (6, 2), (4, (2, 1, 1))):
            out = subprocess.run([LOCKSTEP, "scale", self.nodes[0].output, str(workers)], capture_output=True, text=True)
            self.assertEqual(out.returncode, 0, out.stderr)
            for node in self.nodes:
                node.workers = each if isinstance(each, int) else each[node.rank]
                node.all_workers()
        self.expect_all_replaced(0)

    def test_while_they_come(self):
        """As they load, as they apply what is under way, and in the first step of their own."""
        first = tuple(f"new host=any phase={phase}" for phase in ("heal", "exchange", "optimizer"))
        own = ("phase=data", "phase=backward repeat=3", "phase=exchange repeat=2")
        self.epochs = 12
        self.start(options={
            rank: ("--inject", "; ".join(f"kill rank={fault}" for fault in (*first, f"{2 * rank + 1} {own[rank]}"))) for rank in range(3)})
        self.expect_all_replaced(3 * 3 + 1 + 3 + 2)

    def test_all_launchers_are_given_the_same_faults(self):
        """Each fires on node 0, unless it says on which."""
        self.options += ("--inject", "kill txn=20; kill rank=4 txn=40; kill host=any txn=60; kill rank=3 txn=9999; "
                         "kill host=1 txn=9999; kill rank=99")
        self.epochs = 12
        self.start()
        self.expect_all_replaced(1 + 1 + 3)
        for node, unfired in zip(self.nodes, (["kill rank=99"], ["kill rank=3 txn=9999", "kill host=1 txn=9999"], [])):
            self.assertEqual(re.findall(r"--inject: '(.*)' never fired on this node", node.text()), unfired, self.told())


class ComesBackTest(HostsRuns):
    """A host whose only worker dies starts another one, which takes the state from another host."""
    WORKERS = (1, 1, 1)

    def setUp(self):
        super().setUp()
        self.options, self.epochs = ("--max-replacements", "99"), 20

    def expect_all_back(self, deaths):
        self.assertEqual(self.ends(), [0, 0, 0], self.told())
        self.assertEqual(self.nodes[0].text().count("died (SIGKILL"), deaths, self.told())
        self.expect_exact((0, 1, 2))

    def until_all_are_there(self):
        """In the newest table of each host's board."""
        def are_there():
            workers = [node.worker_pids() for node in self.nodes]
            return all(len(pids) == 1 and pids[0] not in self.group.killed for pids in workers)
        self.group.until(are_there, "a worker of each host")

    def test_each_in_turn(self):
        """The leader's, too; twice each."""
        self.start()
        self.wait_for_steps(20)
        for rank in (1, 0, 2, 0, 1, 2):
            self.group.kill(self.nodes[rank].all_workers())
            self.until_all_are_there()
        self.expect_all_back(6)

    def test_one_hangs(self):
        """Longer than it may; who waits for it, on other hosts, does not count as hung."""
        self.options += ("--hang-timeout", "2", "--inject", "hang host=1 txn=20 phase=backward")
        self.start()
        self.assertEqual(self.ends(), [0, 0, 0], self.told())
        self.assertEqual(self.told().count("died (hung in backward for "), 1, self.told())
        self.expect_exact((0, 1, 2))

    def test_two_at_once(self):
        self.start()
        self.wait_for_steps(20)
        self.group.kill([self.nodes[rank].all_workers()[0] for rank in (0, 2)])
        self.until_all_are_there()
        self.expect_all_back(2)

    def test_of_two_hosts_each(self):
        self.WORKERS = (1, 1)
        self.start()
        self.wait_for_steps(20)
        for rank in (1, 0, 1):
            self.group.kill(self.nodes[rank].all_workers())
            self.until_all_are_there()
        self.assertEqual(self.ends(), [0, 0], self.told())
        self.expect_exact((0, 1))

    def test_it_dies_again_as_it_comes(self):
        """As it loads, as it applies what is under way, in its first step."""
        where = tuple(f"new host=any phase={phase}" for phase in ("heal", "exchange", "optimizer"))
        faults = "; ".join(f"kill rank={place}" for place in where)
        self.start(options={rank: ("--inject", f"kill rank={rank} txn=20; {faults}") for rank in (1, 2)})
        self.expect_all_back(2 * 4)

    def test_its_launcher_may_open_nothing_any_more(self):
        """So there is no board for the worker that would come: that ends the run, by the cause's code."""
        self.start()
        self.wait_for_steps(20)
        workers, limit = self.nodes[1].all_workers(), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.prlimit(self.nodes[1].process.pid, resource.RLIMIT_NOFILE, (3, limit))
        self.group.kill(workers)
        self.assertEqual(self.ends(), [69, 69, 69], self.told())
        self.assertIn("cannot make the run's shared memory: memfd_create: Too many open files", self.told())

    def test_another_host_is_lost_meanwhile(self):
        """It has a fresh board, and nobody who would begin anything there: the others do not wait for it."""
        self.start(options={1: ("--inject", "kill rank=1 txn=20; kill rank=new host=any phase=heal repeat=6")})
        self.group.until_said(0, "node 1 has no worker left")
        self.nodes[2].kill()
        self.group.until_said(0, "node 2 is lost", may_end=True)
        done = self.nodes[0].committed()
        self.group.until(lambda: self.nodes[0].committed() > done + 5, "a commit without both", may_end=True)
        self.assertEqual(self.ends(), [0, 0, -signal.SIGKILL], self.told())
        self.expect_exact((0, 1))

    def test_another_host_is_lost_as_it_loads(self):
        self.start(options={1: ("--inject", "kill rank=1 txn=20; stop rank=new host=any phase=heal", "--stop-grace", "60")})
        newcomer = self.group.until_stopped(1)
        self.nodes[2].kill()
        self.group.until_said(0, "node 2 is lost", may_end=True)
        send(newcomer, signal.SIGCONT)
        self.assertEqual(self.ends(), [0, 0, -signal.SIGKILL], self.told())
        self.expect_exact((0, 1))

    def test_its_link_is_killed_as_it_comes(self):
        self.start(options={1: ("--inject", "kill rank=1 txn=20; stop rank=new host=any phase=heal", "--stop-grace", "60")})
        newcomer = self.group.until_stopped(1)
        kill(self.nodes[1].link())
        kill(self.nodes[2].link())
        send(newcomer, signal.SIGCONT)
        self.until_all_are_there()
        self.expect_all_back(1)

    def test_the_run_ends_before_it_is_back(self):
        self.epochs = 5
        self.start(options={1: ("--inject", "kill rank=1 txn=492; stop rank=new host=any phase=heal", "--stop-grace", "60")})
        self.assertEqual(self.ends(), [0, 0, 0], self.told())
        self.assertTrue(self.group.ended_without(1), self.told())
        self.expect_exact((0, 2))

    def test_the_run_stops_as_it_comes(self):
        self.start(options={1: ("--inject", "kill rank=1 txn=20; stop rank=new host=any phase=heal", "--stop-grace", "60")})
        self.group.until_stopped(1)
        self.nodes[0].process.send_signal(signal.SIGTERM)
        self.assertEqual(self.ends(), [143, 143, 143], self.told())
        self.nothing_is_left()
        self.start()  # host 1 has an older checkpoint
        self.expect_all_back(1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
