#!/usr/bin/env python3
"""The promise, on real processes of the ConvNet recipe: whatever worker is killed or stopped, weights, optimizer state,
sample ids and losses are those of the undisturbed run.

    promise.py [CLASS[.test] ...]    (environment: harness.py)
"""
import collections
import itertools
import json
import os
import random
import re
import signal
import time

import harness
from harness import LONG, LONGER, SHORT, FaultTest, at_once, built, is_step, undisturbed, until


def stopped(pid):
    try:
        return harness.state_of(pid) == "T"
    except OSError:
        return False


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
        options = SHORT + ("--data", "evaluate")
        self.kill_in_evaluations(options, filter(lambda txn: not is_step(txn), self.TXNS))

    def test_evaluate_in_the_epoch(self):
        """Two steps, an evaluation, two steps, the epoch's end."""
        self.kill_in_evaluations(SHORT + ("--data", "evaluate", "--evaluate-every", 2), (2, 8, 14))

    def kill_in_evaluations(self, options, txns):
        def check(kill):
            rank, txn = kill
            run = self.run_to_end(4, options, ("--inject", f"kill rank={rank} txn={txn} phase=evaluate"))
            self.assert_same(run, options)
            self.assert_killed(run, [rank])
        at_once(check, [(rank, txn) for txn in txns for rank in (0, 1, 2)])

    def test_snapshot(self):
        """The first rank alone takes snapshots; before each step but the run's first."""
        txns = [txn for txn in self.TXNS if txn != 0 and is_step(txn)]
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

    def test_updates(self):
        """Steps of two updates, with carried rows and a hook: in each phase of each of the two, in snapshots and copies, and at the end."""
        def program(output):
            return [built("hooks_worker"), "slow-updates", str(output), "12"]  # 144 transactions
        phases = itertools.product(("data", "forward", "backward", "exchange", "optimizer"), (0, 1))
        kills = [f"txn={20 + 12 * i + update} phase={phase}" for i, (phase, update) in enumerate(phases)]
        kills += ["phase=heal", "rank=new phase=heal", "phase=snapshot", "phase=done"]
        for workers in (2, 4):
            output = self.folder / f"updates{workers}"
            run = self.run_to_end(workers, launcher=("--max-replacements", 99, "--max-restarts", 99,
                                                     "--inject", "; ".join(f"kill {kill}" for kill in kills)),
                                  output=output, program=program(output))
            self.assertEqual(harness.ending(run), undisturbed(program=program), run.err)
            finished = run.err.count("ended with SIGKILL after the run was finished")
            self.assertEqual(len(run.victims()) + finished, len(kills), run.err)

    def test_newcomer_in_heal(self):
        """Replacements die while they take the state, five in a row; the sixth lives."""
        run = self.run_to_end(3, LONGER, ("--max-replacements", 99, "--inject",
                                          "kill rank=1 txn=5; kill rank=new phase=heal repeat=5"))
        self.assert_same(run, LONGER)
        self.assert_killed(run, [1] * 6)

    def test_donor_in_heal(self):
        """The donor is the highest rank: of the two that are left, rank 1."""
        run = self.run_to_end(3, LONGER, ("--inject", "kill rank=2 txn=5; kill rank=1 phase=heal"))
        self.assert_same(run, LONGER)
        self.assert_killed(run, [2, 1])


class Stopped(FaultTest):
    """SIGSTOP beyond the grace: evicted, and SIGCONT afterwards finds nobody."""

    GRACE = ("--stop-grace", 0.2)
    LONG_GRACE = ("--stop-grace", 2)  # for several that are stopped one after the other

    def test_injected(self):
        for rank, phase in ((0, "backward"), (1, "exchange"), (2, "optimizer")):
            run = self.run_to_end(3, SHORT, (*self.GRACE, "--inject", f"stop rank={rank} txn=3 phase={phase}"))
            self.assert_same(run, SHORT)
            self.assert_killed(run, [rank])
            told = re.match(r"stopped for (\d+\.\d) s", run.victims()[0]["cause"])
            self.assertGreaterEqual(float(told[1]), self.GRACE[1])

    def test_from_outside(self):
        run = self.start(3, LONGER, self.GRACE)
        for rank, at in ((1, 30), (0, 90), (2, 150)):
            run.until_committed(at)
            until(lambda: len(run.members()) == 3, "three members")
            pid = run.worker(rank)
            os.kill(pid, signal.SIGSTOP)
            until(lambda: not os.path.exists(f"/proc/{pid}"), "the eviction", seconds=30)
            with self.assertRaises(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        run.expect(0)
        self.assert_same(run, LONGER)
        self.assertEqual(len(run.victims()), 3, run.err)

    def test_shorter_than_the_grace(self):
        """A short pause costs nothing but its time."""
        run = self.start(3, LONG, ("--stop-grace", 10))
        run.until_committed(50)
        pid = run.worker(1)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.3)
        os.kill(pid, signal.SIGCONT)
        self.assert_same(run.expect(0), LONG)
        self.assertEqual(run.victims(), [])

    def test_slow_at_an_epochs_end(self):
        """The one batch of the evaluation is rank 0's, so the others need not wait there for rank 2: two transactions ahead they do."""
        run = self.start(3, SHORT, ("--stop-grace", 30, "--inject", "stop rank=2 txn=3 phase=optimizer"))
        pid = until(lambda: next((m["pid"] for m in run.members() if stopped(m["pid"])), None), "the stop")
        def others():
            return [m["txn"] for m in run.members() if m["pid"] != pid]
        until(lambda: others() == [5, 5], "the others at transaction 5")
        time.sleep(0.1)
        self.assertEqual(others(), [5, 5])
        os.kill(pid, signal.SIGCONT)
        self.assert_same(run.expect(0), SHORT)
        self.assertEqual(run.victims(), [], run.err)

    def test_newcomer_in_heal(self):
        """Members wait 15 ms for a newcomer that is loading and then go on; it takes a later copy once it runs again."""
        faults = "kill rank=1 txn=5; stop rank=new phase=heal"  # it comes in at about transaction 110 of 612
        run = self.start(3, LONGER, ("--stop-grace", 60, "--inject", faults))
        pid = until(lambda: next((m["pid"] for m in run.status()["members"] if stopped(m["pid"])), None), "the stop")
        run.until_committed(run.committed() + 100)
        self.assertTrue(stopped(pid))
        self.assertEqual(len(run.members()), 2)
        os.kill(pid, signal.SIGCONT)
        until(lambda: len(run.members()) == 3, "three members")
        self.assert_same(run.expect(0), LONGER)
        self.assert_killed(run, [1])

    def test_all_and_no_restart(self):
        """Nobody could go on, and no restart is left: whoever is continued first goes on with those that follow."""
        for workers in (1, 3):
            run = self.start(workers, LONG, self.LONG_GRACE)
            run.until_committed(30)
            pids = [run.worker(rank) for rank in range(workers)]
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            until(lambda: "the run waits for its SIGCONT" in run.err_path.read_text(), "the word of it")
            time.sleep(0.3)
            self.assertTrue(all(map(stopped, pids)))
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            self.assert_same(run.expect(0), LONG)
            self.assertEqual(run.victims(), [], run.err)

    def test_all(self):
        """Nobody is left: the group starts again from its newest checkpoint."""
        run = self.start(2, LONG + ("--checkpoint-every", 20), (*self.LONG_GRACE, "--max-restarts", 1))
        run.until_committed(80)
        for member in run.members():
            os.kill(member["pid"], signal.SIGSTOP)
        self.assert_same(run.expect(0), LONG)
        self.assertEqual([i["rung"] for i in run.incidents()], [3], run.err)


class SeveralKilled(FaultTest):
    def test_two_in_one_transaction(self):
        pairs = [(a, b) for a in (0, 1, 2, 3) for b in range(a)]
        phases = ("data", "forward", "backward", "exchange", "optimizer")

        def check(case):
            (a, b), (phase, other) = case
            spec = f"kill rank={a} txn=6 phase={phase}; kill rank={b} txn=6 phase={other}"
            run = self.run_to_end(4, SHORT, ("--inject", spec))
            self.assert_same(run, SHORT)
            self.assert_killed(run, [a, b])
        at_once(check, [(pair, (phases[i % 5], phases[i * 2 % 5])) for i, pair in enumerate(pairs)])

    def test_two_from_outside(self):
        run = self.start(4, LONGER)
        for at in (40, 120, 200):
            run.until_committed(at)
            until(lambda: len(run.members()) == 4, "four members")
            pids = [run.worker(at % 3), run.worker(3)]
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        self.assert_same(run.expect(0), LONGER)
        self.assertEqual(len(run.victims()), 6, run.err)
        newest = sorted((run.output / "checkpoints").glob("step-*"))[-1]
        self.assertGreater(json.loads((newest / "manifest.json").read_text())["generation"], 3)  # three losses, three returns

    def test_random_moments(self):
        dice = random.Random(harness.SEED)
        print(f"LOCKSTEP_FAULT_SEED={harness.SEED}")
        run = self.start(4, LONG, ("--max-replacements", 1000, "--max-restarts", 20))
        kills, hit = 0, collections.Counter()
        while run.process.poll() is None:
            time.sleep(dice.uniform(0, 0.15))
            status = run.status()
            pids = [member["pid"] for member in status.get("members", [])]
            # On a busy machine a step takes longer than the pauses: the run must get on all the same, and two starts from the
            # seed are enough.
            if hit[status.get("committed")] == 6 or not pids or (status.get("restarts", 0) >= 2 and len(pids) < 4):
                continue
            try:
                os.kill(dice.choice(pids), signal.SIGKILL)
                kills += 1
                hit[status.get("committed")] += 1
            except ProcessLookupError:
                pass
        self.assert_same(run.expect(0), LONG)
        print(f"{kills} kills, {len(run.incidents())} incidents")
        self.assertGreater(kills, 5)

    def test_replacements_spent(self):
        """The survivors go on without."""
        run = self.run_to_end(3, SHORT, ("--max-replacements", 0, "--inject", "kill rank=1 txn=3; kill rank=0 txn=7"))
        self.assert_same(run, SHORT)
        self.assert_killed(run, [1, 0])
        self.assertIn("--max-replacements 0 is spent", run.err)


class AllKilled(FaultTest):
    """Rung 3 while --max-restarts lasts; then exit code 75, and the same command goes on."""

    OPTIONS = LONG + ("--epochs", 1)  # 51 transactions
    EVERY = "; ".join(f"kill rank={rank} txn=45 phase={phase}" for rank, phase in ((0, "backward"), (1, "exchange"), (2, "forward")))

    def killed_once_saved(self, every, *launcher, code=0):
        """A checkpoint is written beside the steps, so a worker stands still until one is there; all die in the next step."""
        options = self.OPTIONS + ("--checkpoint-every", every)
        faults = f"stop rank=2 txn=44 phase=forward; {self.EVERY}"
        run = self.start(3, options, ("--max-replacements", 0, "--stop-grace", 60, "--inject", faults, *launcher))
        pid = until(lambda: next((m["pid"] for m in run.members() if stopped(m["pid"])), None), "the stop")
        run.until_saved()
        os.kill(pid, signal.SIGCONT)
        return run.expect(code)

    def test_restart_from_the_seed(self):
        run = self.run_to_end(3, self.OPTIONS, ("--max-replacements", 0, "--max-restarts", 1, "--inject", self.EVERY))
        self.assert_same(run, self.OPTIONS)
        self.assertNotIn("resuming from", run.err)
        self.assertEqual([i["rung"] for i in run.incidents()], [3], run.err)

    def test_restart_from_a_checkpoint(self):
        for every in (1, 3, 10):
            run = self.killed_once_saved(every, "--max-restarts", 1)
            self.assert_same(run, self.OPTIONS)
            self.assertIn("resuming from", run.err)

    def test_one_worker(self):
        run = self.run_to_end(1, SHORT + ("--checkpoint-every", 1),
                              ("--max-restarts", 3, "--inject", "kill txn=3; kill txn=7 phase=optimizer; kill txn=14"))
        self.assert_same(run, SHORT)
        self.assertEqual([i["rung"] for i in run.incidents()], [3] * 3, run.err)

    def test_no_restart_left(self):
        run = self.killed_once_saved(2, code=75)
        said = re.search("the same command goes on from checkpoint (step-[0-9]{8})\n", run.err)
        self.assertTrue(said, run.err)
        self.assertEqual([i["rung"] for i in run.incidents()], [4], run.err)
        again = self.run_to_end(3, self.OPTIONS + ("--checkpoint-every", 2), output=run.output)
        self.assertRegex(again.err, f"resuming from .*{said[1]}")
        self.assert_same(again, self.OPTIONS)

    def test_from_outside(self):
        """All at once for the launcher, which is stopped meanwhile: it finds no moment in which one of them could be replaced."""
        run = self.start(3, LONG + ("--checkpoint-every", 10), ("--max-restarts", 3))
        for restarts, at in enumerate((30, 90, 150), start=1):
            run.until_committed(at)
            members = until(lambda: len(found := run.members()) == 3 and found, "a whole group")
            run.send(signal.SIGSTOP)
            until(lambda: harness.state_of(run.process.pid) == "T", "the launcher's stop")
            for member in members:
                os.kill(member["pid"], signal.SIGKILL)
            run.send(signal.SIGCONT)
            until(lambda: len(run.incidents()) == restarts, "the group's restart")
        self.assert_same(run.expect(0), LONG)
        self.assertEqual([i["rung"] for i in run.incidents()], [3] * 3, run.err)


class Signalled(FaultTest):
    """A signal that asks for an end loses nothing; tests/fault/signals_test.cpp has whomever it may come to."""

    def test_stopped_with_all_its_processes(self):
        """What a service manager or scancel does, in whatever order."""
        output = self.folder / "run"
        for at, launcher_first in ((40, True), (90, False), (150, True)):
            run = self.start(3, LONG + ("--checkpoint-every", 0), output=output)
            run.until_committed(at)
            pids = [member["pid"] for member in run.members()]
            pids.insert(0 if launcher_first else len(pids), run.process.pid)
            for pid in pids:
                os.kill(pid, signal.SIGTERM)
            run.expect(128 + signal.SIGTERM)
            self.assertEqual(run.incidents(), [])
            self.assertEqual(run.committed(), int(max(output.glob("checkpoints/step-*")).name[5:]), "the step under way")
        run = self.run_to_end(2, LONG + ("--checkpoint-every", 0), output=output)
        self.assert_same(run, LONG)
        self.assertIn("resuming from", run.err)


if __name__ == "__main__":
    harness.main()
