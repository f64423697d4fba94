"""Linked programs on several hosts whose disks are slow or stand still: no host is lost by that, however short the silence limit.
And one host whose disk fails at the very end.

    environment: harness.py; LOCKSTEP_SLOW_DISK: the library (set by CTest)
"""
import os
import shutil
import subprocess
import time
import unittest

import harness
from hosts_ring import HostsRuns


class SlowDisk(HostsRuns):
    LIMIT = ("--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=2")  # seconds: L is 2

    def begin(self, sync_ms, options=()):
        self.options = (*self.LIMIT, *options)
        self.make_group()
        self.stall = self.group.folder / "stall"
        for node in self.nodes:
            node.environment = {"LD_PRELOAD": os.environ["LOCKSTEP_SLOW_DISK"], "LOCKSTEP_TEST_SYNC_MS": str(sync_ms),
                                "LOCKSTEP_TEST_STALL": str(self.stall)}
        self.start()

    def stand_still(self, seconds):
        self.stall.touch()
        time.sleep(seconds)
        self.stall.unlink()

    def expect_nobody_lost(self):
        self.assertEqual(self.ends(), [0, 0, 0], self.told())
        for sign in ("is lost", "leads the run from now on", "was taken out"):
            self.assertNotIn(sign, self.told())
        self.expect_exact((0, 1, 2))

    def test_as_the_group_starts_again(self):
        """Each sync takes longer than L: at the start, for checkpoints, and at the end."""
        self.epochs = 20
        self.begin(2200, ("--max-restarts", "1"))
        self.wait_for_steps(20)
        self.group.kill_workers(self.nodes)
        self.expect_nobody_lost()

    def test_as_a_host_comes_back(self):
        """Its lines are copied from another one's disk, and cut by a slow one."""
        self.WORKERS, self.epochs = (1, 1, 1), 60
        self.begin(2200, ("--max-replacements", "9"))
        self.wait_for_steps(20)
        self.group.kill(self.nodes[1].all_workers())
        self.group.until_said(0, "node 1 has no worker left")
        self.stand_still(3)
        self.nodes[1].all_workers()
        self.expect_nobody_lost()

    def test_it_stands_still(self):
        """In the midst of steps, of which the board has room for many."""
        self.epochs = 20
        self.begin(0)
        self.wait_for_steps(20)
        self.stand_still(6.5)
        self.expect_nobody_lost()
        self.assertIn("has taken nothing for 5 s: the run's records wait", self.told())


class OneHost(unittest.TestCase):
    def test_the_last_sync_fails(self):
        """Behind the finale, whose own have come off."""
        folder = harness.scratch() / "last-sync"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        environment = harness.environment(LD_PRELOAD=os.environ["LOCKSTEP_SLOW_DISK"], LOCKSTEP_TEST_BROKEN=str(folder / "run/result.json"))
        words = [harness.LOCKSTEP, "run", "--standalone", harness.built("ring"), "--epochs", "1", "--output", str(folder / "run")]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
        self.assertIn("weights sha256", done.stdout)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, "fsync .*run/ledger.jsonl.*: Input/output error")


if __name__ == "__main__":
    unittest.main(verbosity=2)
