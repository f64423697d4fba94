#!/usr/bin/env python3
"""The promise, for whole runs: the launcher killed and the same command again, workers added and taken away, resumed by fewer.

    promise_of_runs.py [CLASS[.test] ...]    (environment: harness.py)
"""
import os
import pathlib
import random
import re
import signal
import subprocess
import time

import harness
from harness import LONG, SHORT, FaultTest, processes_of, until


class LauncherKilled(FaultTest):
    """SIGKILL to the launcher: its workers are gone at once, and the same command goes on to the same end."""

    def kill_and_go_on(self, moment, options, workers=3):
        """`moment(run)` returns when the launcher is to die."""
        run = self.start(workers, options)
        moment(run)
        run.send(signal.SIGKILL)
        until(lambda: not processes_of(run.output), "the workers' end", seconds=20)
        self.assertEqual(run.wait().code, -signal.SIGKILL, "the run was over too soon")
        return self.run_to_end(workers, options, output=run.output)

    def test_at_the_start(self):
        dice = random.Random(harness.SEED)
        options = LONG + ("--epochs", 1)
        for _ in range(10):
            self.assert_same(self.kill_and_go_on(lambda run: time.sleep(dice.uniform(0, 0.35)), options), options)

    def test_in_the_middle(self):
        for every, at in ((250, 5), (7, 130), (1, 40), (0, 60)):
            def moment(run):
                run.until_committed(at)
                if 0 < every < at:
                    run.until_saved()
            again = self.kill_and_go_on(moment, LONG + ("--checkpoint-every", every))
            self.assert_same(again, LONG)
            self.assertEqual("resuming from" in again.err, 0 < every < at, again.err)

    def test_again_and_again(self):
        """Killed until it is done: every attempt gets a little further."""
        options = LONG + ("--checkpoint-every", 10)
        output = self.folder / "run"
        for at in range(60, 306, 60):
            run = self.start(3, options, output=output)
            if at > 60:
                until(lambda: "resuming from" in run.err_path.read_text(), "the checkpoint")
            run.until_committed(at)
            run.until_saved()
            run.send(signal.SIGKILL).wait()
        again = self.run_to_end(3, options, output=output)
        self.assertIn("resuming from", again.err)
        self.assert_same(again, LONG)

    def in_a_checkpoint(self, number):
        """When the `number`-th checkpoint is being written: its files have a reserved name until it is whole."""
        def moment(run):
            seen = set()
            def writing():
                try:
                    seen.update(name for name in os.listdir(run.output / "checkpoints") if name.startswith(".tmp-"))
                except FileNotFoundError:
                    pass
                return len(seen) >= number or run.process.poll() is not None
            until(writing, f"checkpoint {number}", pause=0)
        return moment

    def test_in_a_checkpoint(self):
        options = LONG + ("--checkpoint-every", 10)
        for number in (1, 4):
            self.assert_same(self.kill_and_go_on(self.in_a_checkpoint(number), options), LONG)

    def test_in_the_final_save(self):
        options = SHORT + ("--checkpoint-every", 0)
        for _ in range(20):  # it is short, and the run may end meanwhile
            run = self.start(3, options)
            self.in_a_checkpoint(1)(run)
            if run.send(signal.SIGKILL).wait().code == -signal.SIGKILL:
                break
        self.assertEqual(run.code, -signal.SIGKILL)
        self.assert_same(self.run_to_end(3, options, output=run.output), SHORT)

    def test_when_all_is_said(self):
        """The result is there, the launcher is not done yet: the same command finds a finished run, or ends it."""
        def result(run):
            until((run.output / "result.json").exists, "the result", pause=0)
        run = self.start(3, SHORT)
        result(run)
        run.send(signal.SIGKILL).wait()
        self.assert_same(self.run_to_end(3, SHORT, output=run.output), SHORT)

    def test_at_once_again(self):
        """The next launcher waits for the last worker of this one."""
        run = self.start(3, LONG + ("--checkpoint-every", 10))
        run.until_committed(50)
        run.send(signal.SIGKILL)
        self.assert_same(self.run_to_end(3, LONG + ("--checkpoint-every", 10), output=run.output), LONG)
        run.wait()


class LauncherStopped(FaultTest):
    OPTIONS = ("--virtual-workers", 3, "--batch-size", 1, "--epochs", 200, "--max-steps", 2000,
               "--evaluate-every", 0, "--checkpoint-every", 0)
    RING = 1024  # most records that the launcher may be behind

    def until_asleep(self, pids):
        """None of them has run for half a second, nor wants to."""
        seen, since = [], 0
        def asleep():
            nonlocal seen, since
            texts = [pathlib.Path(f"/proc/{pid}/stat").read_text() for pid in pids]
            stats = [text.rpartition(")")[2].split() for text in texts]
            now = [(stat[0], stat[11], stat[12]) for stat in stats]  # state, user and system time
            if now != seen or any(state != "S" for state, *_ in now):
                seen, since = now, time.monotonic()
            return time.monotonic() - since > 0.5
        until(asleep, "the workers' standstill", seconds=120, pause=0.02)

    def test_no_record_is_lost(self):
        """Workers go on until the ring of records is full, and wait there for the launcher."""
        run = self.start(3, self.OPTIONS, ("--stop-grace", 120))
        run.until_committed(20)
        workers = [member["pid"] for member in run.members()]
        run.send(signal.SIGSTOP)
        self.until_asleep(workers)
        before = run.committed()
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        run.send(signal.SIGCONT)
        until(lambda: run.committed() - before > self.RING * 3 // 4, "what the ring holds")
        time.sleep(0.1)
        self.assertLessEqual(run.committed() - before, self.RING)
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
        self.assert_same(run.expect(0), self.OPTIONS)
        self.assertEqual(run.victims(), [], run.err)


class Scaling(FaultTest):
    OPTIONS = LONG + ("--epochs", 14)  # 714 transactions

    def scale(self, run, workers, code=0):
        done = subprocess.run([harness.LOCKSTEP, "scale", run.output, str(workers)], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    def test_to_one_and_back(self):
        run = self.start(4, self.OPTIONS)
        for at, workers in ((30, 1), (90, 4), (200, 2), (250, 8)):
            run.until_committed(at)
            self.scale(run, workers)
            until(lambda: len(run.members()) == workers, f"{workers} members")
        self.assert_same(run.expect(0), self.OPTIONS)
        self.assertEqual(run.incidents(), [], run.err)

    def test_refused(self):
        run = self.start(2, self.OPTIONS)
        run.until_committed(10)
        self.assertIn("the run has 8 virtual workers", self.scale(run, 9, code=2))
        self.assertIn("cannot scale to '0' workers", self.scale(run, 0, code=2))
        self.assertIn("usage", self.scale(run, "many", code=2))
        run.send(signal.SIGTERM)
        run.expect(128 + signal.SIGTERM)
        self.assertIn("no launcher is running", self.scale(run, 2, code=69))

    def test_killed_while_scaling(self):
        run = self.start(4, self.OPTIONS)
        for at, workers, victim in ((30, 2, 0), (100, 5, 1), (180, 3, 2)):
            run.until_committed(at)
            pid = run.worker(victim)
            self.scale(run, workers)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has left already
            until(lambda: len(run.members()) == workers, f"{workers} members")
        self.assert_same(run.expect(0), self.OPTIONS)


class Resume(FaultTest):
    def test_at_another_size_in_mid_epoch(self):
        for optimizer in (("--optimizer", "adam", "--lr", 0.001, "--momentum", 0), ("--momentum", 0.9)):
            options, output = SHORT + optimizer, self.folder / optimizer[1 if optimizer[0] == "--optimizer" else 0]
            sizes = (3, 1, 8, None, 2)
            for i, workers in enumerate(sizes):
                kill = f"kill txn={2 + 3 * i} phase=optimizer"
                launcher = ("--max-replacements", 0, "--inject", "; ".join([kill] * (workers or 0)))
                if workers is None:
                    continue
                self.run_to_end(workers, options + ("--checkpoint-every", 1), launcher, output=output, code=75)
            run = self.run_to_end(None, options + ("--checkpoint-every", 1), output=output)
            self.assertIn("resuming from", run.err)
            self.assert_same(run, options)

    def test_other_options_of_the_program_are_told(self):
        output = self.run_to_end(2, SHORT + ("--max-steps", 5)).output
        copy = harness.write_idx(self.folder / "copy", *harness.DATA["short"])
        run = self.run_to_end(2, SHORT + ("--data", copy), output=output)
        self.assertRegex(run.err, "goes on with other options than it had: --data was .*, now .*copy")
        self.assertEqual(run.err.count("other options"), 1, run.err)
        self.assert_same(run, SHORT)

    def test_stopped_in_order(self):
        """SIGTERM and Ctrl-C: a checkpoint where it stopped, and the same command goes on from there."""
        output = self.folder / "run"
        for at, number in ((40, signal.SIGINT), (90, signal.SIGTERM), (150, signal.SIGHUP)):
            run = self.start(3, LONG + ("--checkpoint-every", 0), output=output)
            run.until_committed(at)
            run.send(number).expect(128 + number)
            self.assertEqual(run.incidents(), [])
        run = self.run_to_end(2, LONG + ("--checkpoint-every", 0), output=output)
        self.assert_same(run, LONG)
        self.assertIn("resuming from", run.err)

    def test_stop_cut_short(self):
        """Workers that do not come to save: what is said of the next start is what it does."""
        hang = "; ".join(f"hang rank={rank} txn=70 phase=forward" for rank in range(3))
        for every in (20, 0):
            options = LONG + ("--checkpoint-every", every)
            run = self.start(3, options, ("--shutdown-timeout", 0.3, "--inject", hang))
            run.until_committed(70)
            if every > 0:
                run.until_saved()
            run.send(signal.SIGTERM).expect(128 + signal.SIGTERM)
            saved = sorted(p.name for p in run.output.glob("checkpoints/step-*"))
            says = f"the same command goes on from checkpoint {saved[-1]}" if saved else "no checkpoint yet: the same command starts from the beginning"
            self.assertEqual(bool(saved), every > 0)
            self.assertIn(says, run.err)
            again = self.run_to_end(3, options, output=run.output)
            self.assert_same(again, LONG)
            self.assertEqual([f"resuming from '{run.output}/checkpoints/{saved[-1]}'"] if saved else [], re.findall("resuming from .*", again.err))

    def test_a_finished_run(self):
        run = self.run_to_end(2, SHORT)
        result = run.result()
        again = self.run_to_end(3, SHORT, output=run.output)
        self.assert_same(again, SHORT)
        self.assertEqual(again.result(), result, "the seconds are those of the training")
        self.assertIn("there is nothing left to train", again.err)
        fewer = self.run_to_end(3, SHORT + ("--max-steps", 3), output=run.output)
        self.assertRegex(fewer.err, "has [0-9]+ steps, and 3 are asked for")
        self.assert_same(fewer, SHORT)

    def test_from_a_path(self):
        """Another run's checkpoint of the same kind; a group that dies before its own first one goes back to it."""
        first = self.run_to_end(2, SHORT + ("--max-steps", 5))
        path = first.output / "checkpoints" / "step-00000006"
        options = SHORT + ("--checkpoint-every", 0, "--resume", path)
        kill = "kill txn=8 phase=data; kill txn=8 phase=data"
        run = self.run_to_end(2, options, ("--max-replacements", 0, "--max-restarts", 1, "--inject", kill))
        self.assertEqual(run.err.count(f"resuming from '{path}'"), 2, run.err)
        self.assertEqual(run.hashes(), harness.undisturbed(SHORT)["hashes"])

    def test_back_in_the_same_run(self):
        """Back to an earlier checkpoint of the run itself: the later ones are of another way, also after a restart."""
        options = SHORT + ("--checkpoint-every", 1)
        whole = self.run_to_end(2, options + ("--keep-checkpoints", 99))
        # Steps are skipped while the one before is being written.
        at = max(n for n in (int(p.name[5:]) for p in (whole.output / "checkpoints").glob("step-*")) if 1 <= n <= 12)
        path = whole.output / "checkpoints" / f"step-{at:08}"
        kill = f"kill txn={at + 1} phase=idle; kill txn={at + 1} phase=idle"
        run = self.run_to_end(2, SHORT + ("--checkpoint-every", 0, "--resume", path),
                              ("--max-replacements", 0, "--max-restarts", 1, "--inject", kill), output=whole.output)
        self.assertEqual(run.err.count(f"resuming from '{path}'"), 2, run.err)
        self.assert_same(run, SHORT)

    def test_never(self):
        run = self.run_to_end(2, SHORT + ("--checkpoint-every", 1), ("--inject", "kill txn=7 phase=data; kill txn=7 phase=data",
                                                                    "--max-replacements", 0), code=75)
        again = self.run_to_end(2, SHORT + ("--resume", "never"), output=run.output)
        self.assertNotIn("resuming from", again.err)
        self.assert_same(again, SHORT)


if __name__ == "__main__":
    harness.main()
