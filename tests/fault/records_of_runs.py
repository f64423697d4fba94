#!/usr/bin/env python3
"""What a run has recorded, and its directory: changed, taken away, put back, or begun from a checkpoint of elsewhere.

    records_of_runs.py [CLASS[.test] ...]    (environment: harness.py)
"""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import harness
from harness import LONG, SHORT, FaultTest, processes_of, records, until


class Records(FaultTest):
    """Records that somebody has changed or taken away: the weights do not depend on them, and the run says what is missing."""

    def unfinished(self):
        return self.run_to_end(2, SHORT + ("--max-steps", 7)).output  # 8 transactions, of which 4 is an evaluation

    def goes_on(self, output, *warnings, at=8):
        for workers in (None, 3):
            copy = self.folder / f"copy{self.count}"
            shutil.copytree(output, copy, symlinks=True)
            run = self.run_to_end(workers, SHORT, output=copy)
            self.assertEqual(run.hashes(), harness.undisturbed(SHORT)["hashes"])
            said = [line.split(": ", 2)[2] for line in run.err.splitlines()
                    if "warning: " in line and "a BatchNorm in training mode" not in line]  # of SHORT's last batch
            self.assertEqual(said, [f"'{copy / name}' has no records {what}. The run goes on at transaction {at}; its weights do not depend on them"
                                    for name, what in warnings], run.err)

    def without(self, path, *numbers):
        lines = path.read_text().splitlines(True)
        path.write_text("".join(line for i, line in enumerate(lines) if i not in numbers))

    def test_missing_lines(self):
        output = self.unfinished()
        self.goes_on(output)
        self.without(output / "metrics.jsonl", 2, 3, 6)
        self.without(output / "ledger.jsonl", 4)  # transaction 5: what follows the evaluation
        self.goes_on(output, ("ledger.jsonl", "after transaction 3 and before transaction 6"),
                     ("metrics.jsonl", "after transaction 1 and before transaction 4"))

    def test_missing_ends(self):
        output = self.unfinished()
        self.without(output / "metrics.jsonl", 0)
        self.without(output / "ledger.jsonl", 5, 6)
        self.goes_on(output, ("ledger.jsonl", "after transaction 5 and before transaction 8"), ("metrics.jsonl", "before transaction 1"))
        for name in ("metrics.jsonl", "ledger.jsonl"):
            (output / name).unlink()
        self.goes_on(output, ("ledger.jsonl", "before transaction 8"), ("metrics.jsonl", "before transaction 8"))

    def test_begun_elsewhere(self):
        """A run that goes on in another directory: what the first one has is not missing there, at any later start."""
        path = self.unfinished() / "checkpoints" / "step-00000008"
        run = self.run_to_end(2, SHORT + ("--max-steps", 10, "--resume", path))  # up to transaction 12
        self.assertNotIn("has no records", run.err)
        self.assertTrue((run.output / "times.jsonl").read_text())
        self.goes_on(run.output, at=12)
        self.without(run.output / "metrics.jsonl", 0)
        self.goes_on(run.output, ("metrics.jsonl", "before transaction 9"), at=12)

    def test_another_v(self):
        """Transactions are numbered on: what was recorded stays, at the start that takes another V and at all later ones."""
        die = ("--inject", "kill txn={0} phase=data; kill txn={0} phase=data", "--max-replacements", "0")
        def killed(txn, *more):
            return tuple(word.format(txn) for word in die) + more
        before = self.run_to_end(2, ("--epochs", 2, "--checkpoint-every", 0)).output
        lines = (before / "metrics.jsonl").read_text()
        self.start(2, SHORT, killed(12), output=before).wait()  # behind the checkpoint, which is at the start of epoch 2
        self.assertGreater(len((before / "metrics.jsonl").read_text()), len(lines))
        for v, per_epoch in ((4, 7), (16, 2)):
            ends = []
            for troubled in (False, True):
                output = self.folder / f"{v}-{troubled}"
                shutil.copytree(before, output, symlinks=True)
                def goes_on(workers, epochs, *launcher, flags=()):
                    options = ("--virtual-workers", v, "--epochs", epochs, "--checkpoint-every", 0)
                    run = self.run_to_end(workers, options, launcher, output=output, flags=flags)
                    self.assertNotRegex(run.err, "has no records|came out otherwise")
                    return run
                if troubled:
                    goes_on(3, 3, "--inject", "kill txn=11 phase=forward", flags=("--new-virtual-workers",))
                    last = 10 + per_epoch + 1
                    run = goes_on(2, 4, *killed(last + 1, "--max-restarts", "1"))
                    self.assertEqual(run.err.count("resuming from"), 2, run.err)
                    run = goes_on(3, 5)
                else:
                    run = goes_on(None, 5, flags=("--new-virtual-workers",))
                metrics = (output / "metrics.jsonl").read_text()
                self.assertTrue(metrics.startswith(lines), metrics)
                self.assertEqual([line["txn"] for line in records(output / "metrics.jsonl")], list(range(10 + 3 * (per_epoch + 1))))
                times = [line["txn"] for line in records(output / "times.jsonl")]
                self.assertEqual(times, sorted(times))
                ends.append({**harness.ending(run), "metrics.jsonl": [{k: x for k, x in line.items() if k != "redone"}
                                                                      for line in records(output / "metrics.jsonl")]})
                report = json.loads(subprocess.run([harness.LOCKSTEP, "report", output, "--json"], capture_output=True, text=True, check=True).stdout)
                epochs = [point[0] for point in report["runs"][0]["train"]]
                self.assertEqual(epochs, [e + (s + 1) / n for e, n in enumerate([4, 4] + 3 * [per_epoch]) for s in range(n)])
                again = self.run_to_end(3, ("--virtual-workers", v, "--epochs", 5), output=output)
                self.assertIn("there is nothing left to train", again.err)
            self.assertEqual(*ends)

    def moved(self, run):
        run.output.rename(run.output.with_name("moved"))

    def replaced(self, run):
        self.moved(run)
        run.output.mkdir()

    def removed(self, run):
        shutil.rmtree(run.output, ignore_errors=True)

    def test_directory_taken_away(self):
        for workers, taken, every in ((None, self.moved, 0), (None, self.removed, 20), (3, self.replaced, 0), (3, self.moved, 20), (3, self.removed, 0)):
            with self.subTest(workers=workers, taken=taken.__name__, every=every):
                run = self.start(workers, LONG + ("--checkpoint-every", every))
                run.until_committed(10)
                taken(run)
                self.assertEqual(run.wait().code, 1, run.err)
                # A checkpoint that is being written may keep the folder from being removed with the rest.
                self.assertRegex(run.err, f"error: .*'{run.output}[^']*' is not the (directory|file) any more in which this run began")
                self.assertEqual(run.err.count("error: "), 1, run.err)
                self.assertEqual(processes_of(run.output), [])
                shutil.rmtree(run.output.with_name("moved"), ignore_errors=True)

    def begun_and_moved(self, options, launcher=()):
        run = self.start(3, LONG + ("--checkpoint-every", 20) + options, launcher)
        run.until_committed(30)
        run.until_saved()
        workers = [m["pid"] for m in run.members()]
        self.moved(run)
        return run, run.output.with_name("moved"), workers

    def put_back(self, run, moved):
        self.assertFalse(run.output.exists(), "made anew")
        moved.rename(run.output)

    def test_put_back_under_the_run(self):
        """Nothing is made in the directory's place meanwhile: the run goes on in it, and its records are where it is."""
        run, moved, workers = self.begun_and_moved(("--epochs", 60))
        says = f"the checkpoint after step [0-9]+ was not saved: '{run.output}' is not the directory any more .*; training goes on"
        until(lambda: re.search(says, run.err_path.read_text()), "what was not saved")
        os.kill(workers[1], signal.SIGKILL)
        until(lambda: list(moved.glob("incidents/*.json")), "the incident's record")
        self.put_back(run, moved)
        newest = max(run.output.glob("checkpoints/step-*"))
        until(lambda: max(run.output.glob("checkpoints/step-*")) != newest, "the next checkpoint")
        until(lambda: len(run.members()) == 3, "the replacement")  # which may take longer than the checkpoint that waited
        run.send(signal.SIGTERM).expect(128 + signal.SIGTERM)

    def test_away_for_moments(self):
        """No record is lost with it: a checkpoint may fail and be told, but the run goes on, whenever it is."""
        run = self.start(3, LONG + ("--epochs", 60, "--checkpoint-every", 3))
        run.until_committed(10)
        for _ in range(60):
            self.moved(run)
            time.sleep(0.02)
            self.put_back(run, run.output.with_name("moved"))
            time.sleep(0.02)
        self.assertEqual(len(run.members()), 3, run.err_path.read_text())
        run.send(signal.SIGTERM).expect(128 + signal.SIGTERM)

    def test_put_back_for_the_next_start(self):
        """The same command goes on from its last checkpoint."""
        def stopped(run, _):
            run.send(signal.SIGTERM)
        def died(_, workers):
            for pid in workers:
                os.kill(pid, signal.SIGKILL)
        for mode, end, code, says in (("stop", lambda *_: None, 1, "error: .*; stopped"), ("continue", stopped, 143, "the same command goes on from checkpoint"),
                                      ("continue", died, 1, "error: .* is not the directory any more")):
            with self.subTest(mode=mode, code=code):
                options = ("--on-save-error", mode, "--epochs", 6 if mode == "stop" else 60)
                run, moved, workers = self.begun_and_moved(options, ("--max-replacements", 0, "--max-restarts", 1))
                end(run, workers)
                self.assertEqual(run.wait().code, code, run.err)
                self.assertRegex(run.err, says)
                self.assertEqual([str(p) for p in moved.rglob(".tmp-*")], [])
                self.put_back(run, moved)
                again = self.run_to_end(3, LONG + options + (() if mode == "stop" else ("--epochs", 2)), output=run.output)
                self.assertIn("resuming from", again.err)
                if mode == "stop":
                    self.assert_same(again, LONG)


if __name__ == "__main__":
    harness.main()
