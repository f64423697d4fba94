#!/usr/bin/env python3
"""Bad input: one clear message, the exit code of docs/guide/errors.md, nothing left behind.

    bad_input.py [CLASS[.test] ...]    (environment: harness.py; LOCKSTEP_WRONG_TORCH: the library of wrong_torch.cpp)
"""
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess

import harness
from harness import SHORT, FaultTest

USAGE, BAD_DATA, DISK, UNAVAILABLE = 2, 65, 1, 69


class BadInput(FaultTest):
    def refused(self, code, says, options=SHORT, workers=(None, 3), launcher=(), output=None, **more):
        """On that many workers (None: without the launcher) the run ends with `code` and one error that matches `says`."""
        for count in workers:
            with self.subTest(workers=count, options=options):
                before = self.listing(output)
                run = self.start(count, options, launcher if count is not None else (), output, **more).wait()
                self.assertEqual(run.code, code, run.err)
                errors = [line for line in run.err.splitlines() if "error: " in line]
                self.assertEqual(len(errors), 1, run.err)
                self.assertRegex(errors[0], says)
                self.assertEqual(harness.GREETING.sub("", run.out, count=1), "")
                self.assertNotIn("has left the run", run.err)
                self.assertEqual(harness.processes_of(run.output), [])
                self.assertEqual(self.listing(run.output), before)

    def refused_again(self, output, code, says, options=SHORT, **more):
        """The run directory stays as it was."""
        before = self.listing(output)
        for workers in (None, 3):
            run = self.start(workers, options, output=output, **more).wait()
            self.assertEqual(run.code, code, run.err)
            self.assertRegex(run.err, says)
            self.assertEqual(run.err.count("error: "), 1, run.err)
            self.assertNotIn("has left the run", run.err)
            self.assertEqual(self.listing(output), before)

    def listing(self, output):
        """What a run directory holds; a refused run adds nothing, the folders for it apart."""
        output = pathlib.Path(output or self.folder / "none")
        return sorted((str(p), p.read_bytes()) for p in output.rglob("*") if p.is_file())


class Data(BadInput):
    def digits(self, name="digits"):
        return harness.write_idx(self.folder / name, *harness.DATA["short"])

    def refused_data(self, says, change, file="train-images-idx3-ubyte"):
        folder = self.digits(f"digits{self.count}")
        path = folder / file
        path.write_bytes(change(path.read_bytes()))
        self.refused(BAD_DATA, f"{re.escape(str(path))}.*{says}", SHORT + ("--data", folder))

    def test_missing(self):
        self.refused(BAD_DATA, "no such folder", SHORT + ("--data", self.folder / "nowhere"))
        for name in ("train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
            folder = self.digits(name)
            (folder / name).unlink()
            self.refused(BAD_DATA, f"neither '{name}' nor '{name}.gz' in it", SHORT + ("--data", folder))

    def test_unreadable(self):
        loop = self.folder / "loop"
        loop.symlink_to("loop")
        self.refused(BAD_DATA, f"data folder '{loop}': it cannot be read, list '{loop}': Too many levels", SHORT + ("--data", loop))
        (self.folder / "file").write_text("")
        self.refused(BAD_DATA, "it is no folder", SHORT + ("--data", self.folder / "file"))

    def test_truncated(self):
        self.refused_data("cut short", lambda raw: raw[:-1])
        self.refused_data("cut short", lambda raw: raw[:10])
        self.refused_data("has 0 bytes", lambda raw: b"")
        self.refused_data("cut short", lambda raw: raw[:-1], "t10k-labels-idx1-ubyte")

    def test_oversized(self):
        self.refused_data("too long", lambda raw: raw + b"\0")
        self.refused_data("more than 2\\^64 bytes", lambda raw: raw[:4] + b"\xff" * 12 + raw[16:])
        self.refused_data("limit", lambda raw: raw[:4] + struct.pack(">3i", 1 << 30, 28, 28) + raw[16:])

    def test_label_out_of_range(self):
        self.refused_data("label 10 at index 52, expected 0 to 9", lambda raw: raw[:-1] + b"\x0a", "train-labels-idx1-ubyte")

    def test_wrong_magic(self):
        self.refused_data("not an IDX file", lambda raw: b"\x89PNG" + raw[4:])
        self.refused_data("images and labels mixed up", lambda raw: struct.pack(">2i", 2049, 3) + bytes(3))

    def test_counts_differ(self):
        self.refused_data("has 50 labels", lambda raw: struct.pack(">2i", 2049, 50) + bytes(50), "train-labels-idx1-ubyte")

    def change_labels(self, folder, part="train"):
        path = folder / f"{part}-labels-idx1-ubyte"
        raw = bytearray(path.read_bytes())
        raw[-2] = (raw[-2] + 1) % 10
        path.write_bytes(raw)

    def test_changed_between_runs(self):
        """One label more or less is another run; it does not go on with it unasked."""
        folder = self.digits()
        options = SHORT + ("--data", folder)
        output = self.run_to_end(2, options + ("--max-steps", 5)).output
        for part, name in (("train", "dataset"), ("t10k", "test_set")):
            self.change_labels(folder, part)
            self.refused_again(output, USAGE, f"holds another run: {name}_fingerprint was", options)
            shutil.rmtree(folder)
            self.digits()
        self.assert_same(self.run_to_end(2, options, output=output), SHORT)

    def test_changed_under_a_run(self):
        """A newcomer that reads other data than the others is not let in, and they go on without it: here once that is said."""
        folder = harness.write_idx(self.folder / "long", *harness.DATA["long"])
        run = self.start(3, harness.LONG + ("--data", folder), ("--stop-grace", 60))
        run.until_committed(30)
        self.change_labels(folder)
        os.kill(run.worker(1), signal.SIGKILL)
        run.until_committed(run.committed() + 5)  # what was under way, and steps without it
        os.kill(member := run.worker(0), signal.SIGSTOP)
        harness.until(lambda: "dataset_fingerprint" in run.err_path.read_text(), "the refusal")
        os.kill(member, signal.SIGCONT)
        self.assert_same(run.expect(0), harness.LONG)


class Options(BadInput):
    def test_unknown(self):
        self.refused(USAGE, "unknown option '--epoch'; did you mean '--epochs'\\?", ("--epoch", 3))
        self.refused(USAGE, "'--nproc-per-nod'.*did you mean '--nproc-per-node'\\?", SHORT, (3,), ("--nproc-per-nod", 3))
        self.refused(USAGE, "did you mean 'backward'\\?", SHORT, (3,), ("--inject", "kill phase=backwrad"))
        self.refused(USAGE, "'kill host=1': there is no node 1: the run has 1 node", SHORT, (3,), ("--inject", "kill host=1"))

    def test_values(self):
        self.refused(USAGE, "--epochs", ("--epochs", 0))
        self.refused(USAGE, "--epochs", ("--epochs", "many"))
        self.refused(USAGE, "--batch-size", SHORT + ("--batch-size", 0))
        self.refused(USAGE, "--virtual-workers", SHORT + ("--virtual-workers", -1))
        self.refused(USAGE, "--shuffle", SHORT + ("--shuffle", "sideways"))
        self.refused(USAGE, "--resume is empty; give a path, or leave the option out", SHORT + ("--resume", ""))
        self.refused(USAGE, "nproc-per-node.*0", SHORT, (0,))

    def test_numbers(self):
        """None is rounded to what fits, wrapped, or taken for another."""
        huge = "99999999999999999999"
        for option, value, says in (
                ("--seed", huge, "from 0 to 18446744073709551615"), ("--seed", -1, "from 0"), ("--epochs", huge, "from 1 to 9223372036854775807"),
                ("--epochs", 1 << 62, "with 4 steps an epoch at most"), ("--lr", "nan", "0 or more"), ("--lr", "inf", "finite"), ("--lr", -1, "0 or more"),
                ("--lr", "abc", "a finite number"), ("--momentum", "nan", "0 or more"), ("--checkpoint-every", -1, "which is no duration"),
                ("--momentum", -1, "0 or more"), ("--keep-checkpoints", 0, "from 1"), ("--keep-checkpoints", -5, "from 1"),
                ("--log-every", -3, "which is no duration"), ("--evaluate-every", "30s", "--progress SECONDS"), ("--threads", -1, "from 0 to 1024"),
                ("--threads", 100000, "from 0 to 1024"), ("--batch-size", 1 << 32, "to 2147483647"), ("--max-steps", "010x", "whole number")):
            self.refused(USAGE, f"{option} is '?{re.escape(str(value))}'?[,;] .*{says}", SHORT + (option, value), (None,))
        self.refused(USAGE, "--lr is 'nan', expected a finite number, 0 or more", SHORT + ("--lr", "nan"), (3,))
        for value in ("9999", "two", "-1", "3x", "1" * 30):
            self.refused(USAGE, f"OMP_NUM_THREADS is '{value}'; 1 to 1024", workers=(None,), env=harness.environment(OMP_NUM_THREADS=value))
        self.refused(USAGE, "OMP_NUM_THREADS is 'two'", workers=(3,), env=harness.environment(OMP_NUM_THREADS="two"))

    def test_help_that_is_not_taken(self):
        done = subprocess.run(["/bin/sh", "-c", f"'{harness.CONVNET}' --help > /dev/full"], capture_output=True, text=True)
        self.assertEqual(done.returncode, DISK, done.stderr)
        self.assertIn("cannot write to standard output: No space left on device", done.stderr)

    def test_more_workers_than_shares(self):
        self.refused(USAGE, r"9 workers were asked for \(--nproc-per-node, or the number of ranks\), but the run has 8 virtual workers", SHORT, (9,))

    def test_what_cannot_be_started(self):
        for line, says in (("no-such-program", "no-such-p"), ("/etc/passwd", "passwd"), (f"--nnodes 1025 --rdzv-endpoint a:1 {harness.CONVNET}", "most 1024")):
            done = subprocess.run([harness.LOCKSTEP, "run", *line.split()], capture_output=True, text=True)
            self.assertEqual(done.returncode, USAGE, done.stderr)
            self.assertIn(says, done.stderr)

    def test_wrong_torch(self):
        env = harness.environment(LD_PRELOAD=os.environ["LOCKSTEP_WRONG_TORCH"])
        self.refused(USAGE, r"was built for libtorch \S+ and found libtorch 2\.99\.0", env=env)


class Checkpoints(BadInput):
    def unfinished(self):
        """A run stopped after 8 of its 15 transactions, with checkpoints of 6 and 8."""
        run = self.run_to_end(2, SHORT + ("--max-steps", 7, "--checkpoint-every", 2, "--keep-checkpoints", 2))
        names = sorted(p.name for p in (run.output / "checkpoints").iterdir() if p.name != "last")
        self.assertEqual(len(names), 2)
        return run.output, [run.output / "checkpoints" / name for name in names]

    def damage(self, path, change):
        raw = bytearray(path.read_bytes())
        path.write_bytes(change(raw))

    def flip(self, raw):
        raw[len(raw) // 2] ^= 4
        return raw

    def cut(self, raw):
        return raw[:len(raw) // 2]

    def test_damaged_newest(self):
        """The older one is used, and the damaged one is named."""
        for file in ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"):
            for change in (self.flip, self.cut):
                with self.subTest(file=file, change=change.__name__):
                    output, (older, newest) = self.unfinished()
                    self.damage(newest / file, change)
                    run = self.run_to_end(3, SHORT, output=output)
                    self.assertRegex(run.err, f"skipped checkpoint '{newest}': ")
                    self.assertIn(f"resuming from '{older}'", run.err)
                    self.assert_same(run, SHORT)

    def test_file_missing(self):
        output, (older, newest) = self.unfinished()
        (newest / "optimizer.safetensors").unlink()
        run = self.run_to_end(3, SHORT, output=output)
        self.assertIn(f"skipped checkpoint '{newest}'", run.err)
        self.assert_same(run, SHORT)

    def test_all_damaged(self):
        """Work of many days may not begin anew without a word."""
        output, folders = self.unfinished()
        for folder in folders:
            self.damage(folder / "model.safetensors", self.flip)
        self.refused_again(output, BAD_DATA, f"{folders[-1]}.*--resume never")
        run = self.run_to_end(3, SHORT + ("--resume", "never"), output=output)
        self.assert_same(run, SHORT)

    def test_path_damaged(self):
        output, (_, newest) = self.unfinished()
        self.damage(newest / "model.safetensors", self.flip)
        self.refused(BAD_DATA, f"checkpoint '{newest}' cannot be used: .*model.safetensors", SHORT + ("--resume", newest))

    def test_path_of_a_run_or_of_nothing(self):
        output, (_, newest) = self.unfinished()
        self.refused(BAD_DATA, f"it is a run's directory; give one of its checkpoints, the newest is '{newest}'", SHORT + ("--resume", output))
        self.refused(BAD_DATA, "cannot be used: there is no such folder", SHORT + ("--resume", self.folder / "nowhere"))

    def test_another_run(self):
        output, _ = self.unfinished()
        self.refused_again(output, USAGE, "holds another run: lr was .*--resume never", SHORT + ("--lr", 0.125))
        self.refused_again(output, USAGE, "holds another run: seed was 0, now it is 1", SHORT + ("--seed", 1))

    def test_another_model(self):
        _, (_, newest) = self.unfinished()
        adam = SHORT + ("--optimizer", "adam", "--resume", newest)
        self.refused(BAD_DATA, "it is of another model: optimizer.safetensors: ", adam)
        self.refused(BAD_DATA, "it is of another run: identity", SHORT + ("--lr", 0.125, "--resume", newest))

    def test_another_number_of_virtual_workers(self):
        output, (_, newest) = self.unfinished()
        four = SHORT + ("--virtual-workers", 4)
        self.refused_again(output, USAGE, "virtual_workers was 8, now it is 4", four)
        self.refused_again(output, USAGE, "is in the middle of epoch 1", four, flags=("--new-virtual-workers",))
        self.refused_again(output, USAGE, "is in the middle of epoch 1", four + ("--resume", newest), flags=("--new-virtual-workers",))
        self.refused(BAD_DATA, "made with 8 virtual workers, this run has 4", four + ("--resume", newest))
        self.refused(USAGE, "is in the middle of epoch 1", four + ("--resume", newest), flags=("--new-virtual-workers",))

    def test_refused_once_a_checkpoint_was_read(self):
        """Whatever is wrong then: the newer checkpoints of a run that goes back are still there."""
        output, (older, newest) = self.unfinished()
        metrics = output / "metrics.jsonl"
        metrics.write_text("junk\n" + metrics.read_text())
        checkpoints = self.listing(output / "checkpoints")
        for workers in (None, 3):
            run = self.start(workers, SHORT + ("--resume", older), output=output).wait()
            self.assertEqual(run.code, BAD_DATA, run.err)
            self.assertIn("a line starts with 'junk", run.err)
            self.assertEqual(self.listing(output / "checkpoints"), checkpoints)

    def test_goes_back(self):
        output, (older, newest) = self.unfinished()
        run = self.run_to_end(3, SHORT + ("--resume", older), output=output)
        self.assertIn(f"before {newest.name} of", run.err)
        self.assert_same(run, SHORT)
        gone = self.run_to_end(3, SHORT + ("--resume", older.parent / "step-00000001"), output=output, code=BAD_DATA)
        self.assertIn("--resume auto goes on from step-", gone.err)

    def test_new_virtual_workers_at_an_epochs_end(self):
        hashes = []
        for workers in (1, 4):
            run = self.run_to_end(3, ("--epochs", 1))
            four = ("--epochs", 2, "--virtual-workers", 4)
            again = self.run_to_end(workers, four, output=run.output, flags=("--new-virtual-workers",))
            self.assertIn("resuming from", again.err)
            hashes.append(again.hashes())
        self.assertEqual(hashes[0], hashes[1])
        self.assertNotEqual(hashes[0]["weights_sha256"], self.run_to_end(2, four).hashes()["weights_sha256"])

    def test_more_virtual_workers(self):
        """An epoch has fewer transactions then; the new checkpoints come behind the old ones, and count."""
        run = self.run_to_end(2, ("--epochs", 1, "--virtual-workers", 2))
        eight = ("--epochs", 2, "--virtual-workers", 8)
        self.assertIn("resuming from", self.run_to_end(3, eight, output=run.output, flags=("--new-virtual-workers",)).err)
        hashes = run.hashes()
        for flags in ((), ("--new-virtual-workers",)):
            again = self.run_to_end(3, eight, output=run.output, flags=flags)
            self.assertIn("there is nothing left to train", again.err)
            self.assertEqual(again.hashes(), hashes)


class Output(BadInput):
    def test_unwritable(self):
        """A file where the directory should be, and, for all but root, a directory without permission."""
        (self.folder / "file").write_text("")
        self.refused_output(self.folder / "file")
        self.refused_output(self.folder / "file" / "run")
        self.refused_output(pathlib.Path("/proc/nowhere"))
        if os.geteuid() != 0:
            (self.folder / "locked").mkdir(mode=0o500)
            self.refused_output(self.folder / "locked" / "run")

    def refused_output(self, output, says=None):
        for workers in (None, 3):
            run = self.start(workers, SHORT, output=output).wait()
            self.assertEqual(run.code, DISK, run.err)
            self.assertEqual(run.err.count("error: "), 1, run.err)
            self.assertIn(says or str(self.folder / "file" if self.folder in output.parents else output), run.err)

    def test_unreachable(self):
        """What no folder can be made of: a loop of links, a link to nothing, a name and a path that are too long."""
        (self.folder / "loop").symlink_to("loop")
        (self.folder / "link").symlink_to("nothing")
        self.refused_output(self.folder / "link", "link': it is a symbolic link to 'nothing', which is no folder")
        for output in (self.folder / "loop", self.folder / "loop" / "run", self.folder / ("n" * 300), self.folder / "/".join(["d" * 200] * 25)):
            self.refused_output(output, "cannot make folder '" + str(self.folder))
        self.assertEqual({p.name for p in self.folder.iterdir()}, {"link", "loop"})

    def foreign(self, *names):
        folder = self.folder / f"foreign{self.count}"
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("precious\n")
        return folder

    def test_foreign(self):
        """What others keep by the names that a run makes is neither overwritten nor removed."""
        names = ("metrics.jsonl", "ledger.jsonl", "config.toml", "result.json", "checkpoints/mine/w.pt", "incidents/report.txt")
        for name in names:
            says = f"holds no run of Lockstep \\(it has '{name.split('/')[0]}' but no manifest.json\\); give another --output"
            self.refused(USAGE, says, SHORT + ("--resume", "never"), (None,), output=self.foreign(name, ".tmp-mine/file"))
        self.refused(USAGE, "holds no run of Lockstep", SHORT, output=self.foreign(*names, ".tmp-mine/file"))
        for resume in ("auto", "never"):
            self.refused(USAGE, "is not the manifest of a run", SHORT + ("--resume", resume), output=self.foreign("manifest.json", *names))

    def test_a_run_that_was_moved_away(self):
        """What is left in its place is no run: not even the folder of checkpoints may pass for one."""
        run = self.run_to_end(2, SHORT + ("--max-steps", 5))
        run.output.rename(self.folder / "moved")
        (run.output / "checkpoints").mkdir(parents=True)
        says = "it has 'checkpoints' but no manifest.json.*or, if its run was moved away, remove this directory and move the run's back"
        self.refused(USAGE, says, SHORT, output=run.output)
        (self.folder / "moved").rename(run.output / "moved")
        self.refused(USAGE, says, SHORT, output=run.output)

    def test_beside_foreign_files(self):
        """Other names are nobody's concern: they stay as they are, also when the run is refused later."""
        output = self.foreign("main.py", ".tmp-mine/file", "sub/.tmp-notes/file", "manifest.toml")
        before = self.listing(output)
        for options, code in ((SHORT, 0), (SHORT + ("--lr", 0.125), USAGE), (SHORT + ("--resume", "never"), 0)):
            run = self.start(2, options, output=output).wait()
            self.assertEqual(run.code, code, run.err)
            self.assertLessEqual(set(before), set(self.listing(output)))

    def test_killed_before_its_manifest(self):
        """What the first start of a run may leave until then does not make the directory somebody else's."""
        for workers in (None, 2):
            output = self.foreign("incidents/0001.json", ".tmp-lockstep-control", ".tmp-lockstep-manifest.json")
            self.assert_same(self.run_to_end(workers, SHORT, output=output), SHORT)

    def test_a_folder_in_a_files_place(self):
        output = self.run_to_end(2, SHORT + ("--max-steps", 5)).output
        (output / "metrics.jsonl").unlink()
        (output / "metrics.jsonl").mkdir()
        for workers in (None, 2):
            run = self.start(workers, SHORT, output=output).wait()
            self.assertEqual(run.code, BAD_DATA, run.err)
            self.assertRegex(run.err, "error: .*metrics.jsonl' is not a regular file; move it away")

    def test_in_use(self):
        """A second run in the same directory waits a while, then says why it cannot."""
        for workers in (2, None):
            first = self.start(workers, harness.LONG + ("--epochs", 1000))
            first.until_committed(5)
            second = self.start(workers, harness.LONG + ("--epochs", 1000), output=first.output).wait()
            self.assertEqual(second.code, UNAVAILABLE, second.err)
            self.assertEqual(second.err.count("error: "), 1, second.err)
            self.assertIn("is in use by another run", second.err)
            first.send(signal.SIGTERM).wait()

    def test_every_worker_holds_the_lock(self):
        """So that the next launcher waits for the last of them."""
        run = self.start(3, harness.LONG)
        run.until_committed(5)
        for member in run.members():
            self.assertIn(str(run.output), [os.readlink(fd) for fd in pathlib.Path(f"/proc/{member['pid']}/fd").iterdir()])
        run.send(signal.SIGTERM).expect(128 + signal.SIGTERM)


if __name__ == "__main__":
    harness.main()
