#!/usr/bin/env python3
"""The promise, on real processes of the ConvNet recipe: whatever is killed, stopped, added or removed, weights, optimizer
state, sample ids and losses are those of the undisturbed run.

    promise.py [CLASS[.test] ...]    (environment: harness.py)
"""
import os
import random
import signal
import subprocess
import time

import harness
from harness import FaultTest, PER_EPOCH, at_once, is_step, undisturbed, until

SHORT = ("--epochs", 3)  # 15 transactions
LONG = ("--epochs", 60)  # 300 transactions


class WorldSizes(FaultTest):
    def test_any_number_of_workers(self):
        def check(workers):
            self.assert_same(self.run_to_end(workers, SHORT), SHORT)
        for workers in (None, 1, 2, 3, 4, 5, 8):
            with self.subTest(workers=workers):
                check(workers)

    def test_optimizers(self):
        for options in (("--optimizer", "adam", "--lr", 0.001), ("--momentum", 0.9), ("--momentum", 0)):
            kill = "kill rank=1 txn=2 phase=backward; kill rank=0 txn=7 phase=optimizer"
            with self.subTest(options=options):
                run = self.run_to_end(3, SHORT + options, ("--inject", kill))
                self.assert_same(run, SHORT + options)
                self.assert_killed(run, [1, 0])


class EveryPhase(FaultTest):
    """SIGKILL in each phase of each transaction of the short run, each of four ranks in turn."""

    TXNS = range(15)

    # Five workers, and in consecutive transactions ranks 3, 2, 1, 0 die: each exists still when its turn comes, whether a
    # replacement has joined by then or not.
    def kill_in_turn(self, phase, txns, options=()):
        txns, ranks = list(txns), (3, 2, 1, 0)
        runs = [[(rank, txns[first + i]) for i, rank in enumerate(ranks) if 0 <= first + i < len(txns)]
                for first in range(1 - len(ranks), len(txns))]

        def check(kills):
            spec = "; ".join(f"kill rank={rank} txn={txn} phase={phase}" for rank, txn in kills)
            run = self.run_to_end(5, SHORT + options, ("--max-replacements", 99, "--inject", spec))
            self.assert_same(run, SHORT)
            self.assert_killed(run, [rank for rank, _ in kills])
            return len(kills)
        lives = sum(at_once(check, runs))
        self.assertEqual(lives, len(txns) * len(ranks))
        print(f"{phase}: {lives} kills in {len(runs)} runs")

    def test_data(self):
        self.kill_in_turn("data", filter(is_step, self.TXNS))

    def test_forward(self):
        self.kill_in_turn("forward", filter(is_step, self.TXNS))

    def test_backward(self):
        self.kill_in_turn("backward", filter(is_step, self.TXNS))

    def test_exchange(self):
        self.kill_in_turn("exchange", self.TXNS)

    def test_optimizer(self):
        self.kill_in_turn("optimizer", self.TXNS)

    def test_evaluate(self):
        """Three batches of the evaluation: with four workers ranks 0, 1 and 2 have one each."""
        def check(kill):
            rank, txn = kill
            run = self.run_to_end(4, SHORT, ("--inject", f"kill rank={rank} txn={txn} phase=evaluate"))
            self.assert_same(run, SHORT)
            self.assert_killed(run, [rank])
        at_once(check, [(rank, txn) for rank in (0, 1, 2) for txn in self.TXNS if not is_step(txn)])

    def test_snapshot(self):
        """The first rank alone takes snapshots; before each transaction but the first of an epoch."""
        txns = [txn for txn in self.TXNS if txn % PER_EPOCH != 0]
        spec = "; ".join(f"kill txn={txn} phase=snapshot" for txn in txns)
        for workers in (2, 4):
            run = self.run_to_end(workers, SHORT + ("--checkpoint-every", 1),
                                  ("--max-replacements", 99, "--max-restarts", 99, "--inject", spec))
            self.assert_same(run, SHORT)
            self.assertEqual(len(run.victims()), len(txns), run.err)

    def test_done(self):
        """After the last commit, before the end is recorded; a worker that dies after it is no incident any more."""
        for rank in (0, 1, 2):
            run = self.run_to_end(3, SHORT, ("--inject", f"kill rank={rank} phase=done"))
            self.assert_same(run, SHORT)
            if "ended with SIGKILL after the run was finished" not in run.err:
                self.assertEqual([v["rank"] for v in run.victims()], [rank], run.err)

    def test_newcomer_in_heal(self):
        """Replacements die while they take the state, five in a row; the sixth lives."""
        run = self.run_to_end(3, LONG, ("--max-replacements", 99, "--inject",
                                        "kill rank=1 txn=5; kill rank=new phase=heal repeat=5"))
        self.assert_same(run, LONG)
        self.assert_killed(run, [1] * 6)

    def test_donor_in_heal(self):
        """The donor is the highest rank: of the two that are left, rank 1."""
        run = self.run_to_end(3, LONG, ("--inject", "kill rank=2 txn=5; kill rank=1 phase=heal"))
        self.assert_same(run, LONG)
        self.assert_killed(run, [2, 1])


if __name__ == "__main__":
    harness.main()
