#!/usr/bin/env python3
"""Left behind: nothing. After any end of a run the machine is as it was before: processes, ports and sockets, shared memory,
and files outside the run directory; inside, only what has a reserved name, until the next start.

    left_behind.py [CLASS[.test] ...]    (environment: harness.py)

Exit 77: skipped, where the system lets no one have namespaces of his own.
"""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import harness
from harness import LONG, SHORT, FaultTest, until

RUN_NAMES = {"checkpoints", "incidents", "ledger.jsonl", "manifest.json", "metrics.jsonl", "times.jsonl", "result.json", "config.toml"}
ALIVE = "RSDTtI"  # all but zombies, which a launcher that was killed leaves to the system


def processes():
    found = set()
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and harness.state_of(entry.name) in ALIVE:
                found.add((int(entry.name), (entry / "comm").read_text().strip()))
        except OSError:  # gone in the meantime
            pass
    return found


def files(folder):
    return {str(path) for path in pathlib.Path(folder).rglob("*")}


def machine(run_folder):
    """What is there outside `run_folder`; in namespaces of one's own there is nothing else to see."""
    sockets = {line.split()[1] for kind in ("tcp", "tcp6", "udp", "udp6")
               for line in pathlib.Path(f"/proc/net/{kind}").read_text().splitlines()[1:]}
    unix = {line.split()[-1] for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:] if len(line.split()) > 7}
    system_v = {kind: pathlib.Path(f"/proc/sysvipc/{kind}").read_text() for kind in ("shm", "sem", "msg")}
    kept = {path for folder in ("/tmp", "/dev/shm") for path in files(folder) if not path.startswith(str(run_folder))}
    return {"processes": processes(), "sockets": sockets, "unix": unix, "system_v": system_v, "files": kept}


class LeftBehind(FaultTest):
    OUTLIVED = False  # the launcher is nobody's child and ends a moment after the workers

    def check(self, workers, options, launcher=(), end=None, code=0, reserved=False, output=None, **more):
        """Runs, ends it by end(run), and compares. `reserved`: names of that kind may be left in the run directory."""
        harness.undisturbed(SHORT)  # all that the test itself keeps is there
        run = self.start(workers, options, launcher, output, delayed=True, **more)
        before = machine(self.folder)
        run.begin()
        if end:
            end(run)
        self.assertEqual(run.wait().code, code, run.err)
        if code == -signal.SIGKILL or reserved or self.OUTLIVED:
            until(lambda: processes() == before["processes"], "the end of the workers", seconds=20)
        after = machine(self.folder)
        for kind, there in before.items():
            self.assertEqual(after[kind], there, kind)
        if run.output.exists():
            names = {p.name for p in run.output.iterdir() if not (reserved and p.name.startswith(".tmp-lockstep-"))}
            self.assertLessEqual(names, RUN_NAMES)
            if not reserved:
                self.assertEqual(list(run.output.rglob(".tmp-*")), [])
        return run

    def kill(self, number, after=60):
        def end(run):
            run.until_committed(after)
            run.send(number)
        return end


class Ends(LeftBehind):
    def test_success(self):
        for workers in (None, 1, 3):
            self.check(workers, SHORT)

    def test_killed_workers(self):
        kills = "kill txn=3 phase=backward; kill txn=8 phase=exchange; kill txn=10 phase=snapshot"
        run = self.check(4, SHORT + ("--checkpoint-every", 1), ("--inject", kills))
        self.assertEqual(len(run.victims()), 3, run.err)
        self.check(2, SHORT + ("--checkpoint-every", 1), ("--max-replacements", 0, "--inject", "kill txn=7; kill txn=7"), code=75)

    def test_failures(self):
        self.check(3, SHORT + ("--data", "nowhere"), code=65)
        self.check(3, SHORT + ("--epochs", 0), code=2)
        self.check(9, SHORT, code=2)
        for fault, code in (("exit=65", 65), ("exit=2", 2), ("throw", 0), ("abort", 0), ("segv", 0), ("exit=7", 0)):
            with self.subTest(fault=fault):
                self.check(3, SHORT, ("--inject", f"{fault} rank=1 txn=6 phase=forward"), code=code)

    def test_a_share_that_crashes_everybody(self):
        run = self.check(4, SHORT, ("--inject", "segv txn=6 phase=forward share=5 repeat=9"), code=1)
        self.assertIn("a share of one step crashed 3 workers", run.err)

    def test_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            self.check(3, LONG, end=self.kill(number), code=128 + number)

    def test_ctrl_c_twice(self):
        def end(run):
            run.until_committed(60)
            run.send(signal.SIGINT).send(signal.SIGINT)
        self.check(3, LONG, end=end, code=130)

    def test_stopped_workers_end_too(self):
        def end(run):
            run.until_committed(60)
            for member in run.members():
                os.kill(member["pid"], signal.SIGSTOP)
            run.send(signal.SIGTERM)
        self.check(3, LONG, ("--shutdown-timeout", 1, "--stop-grace", 60), end=end, code=143)

    def test_signal_at_the_start(self):
        dice = random.Random(harness.SEED)
        for number in (signal.SIGINT, signal.SIGTERM) * 3:
            wait = dice.uniform(0, 0.3)
            with self.subTest(seconds=wait):
                # Before the first line of its main a program dies of the signal, as every program does.
                run = self.start(3, LONG, delayed=True)
                before = machine(self.folder)
                run.begin()
                time.sleep(wait)
                run.send(number).wait()
                self.assertIn(run.code, (-number, 128 + number), run.err)
                until(lambda: machine(self.folder) == before, "the end of all", seconds=20)

    def test_killed_launcher(self):
        for at in (1, 60, 200):
            run = self.check(3, LONG + ("--checkpoint-every", 1), end=self.kill(signal.SIGKILL, at), code=-signal.SIGKILL, reserved=True)
            self.assertTrue((run.output / ".tmp-lockstep-control").is_socket())
            self.check(2, LONG + ("--max-steps", 250), output=run.output)

    def test_killed_zygote(self):
        """It costs no worker; the next replacement comes from a new one."""
        def end(run):
            run.until_committed(40)
            workers = {m["pid"] for m in run.status()["members"]}
            children = pathlib.Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text().split()
            zygote = [int(pid) for pid in children if int(pid) not in workers]
            self.assertEqual(len(zygote), 1)
            os.kill(zygote[0], signal.SIGKILL)
            os.kill(run.worker(1), signal.SIGKILL)
        run = self.check(3, LONG, end=end)
        self.assert_same(run, LONG)
        self.assertEqual(len(run.victims()), 1)

    def test_alone(self):
        """Without the launcher a signal ends the program where it is; a checkpoint has all records before it."""
        def end(number):
            def kill(run):
                until(lambda: list(run.output.glob("checkpoints/step-*")), "a checkpoint", pause=0)
                run.send(number)
            return kill
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            run = self.check(None, LONG + ("--checkpoint-every", 5), end=end(number), code=-number, reserved=True)
            again = self.check(None, LONG, output=run.output)
            self.assertIn("resuming from", again.err)
            self.assert_same(again, LONG)


class Spawned(LeftBehind):
    """Runs of lockstep::spawn() (tests/loops/spawn_worker.cpp): 60 steps, `slow` for 2 s."""

    def start(self, workers, options=(), launcher=(), output=None, **more):
        run = super().start(None, (), (), output, delayed=True)
        run.command = [os.environ["LOCKSTEP_SPAWN_WORKER"], str(workers), options[0], str(run.output), *map(str, launcher)]
        run.env = {**run.env, "LOCKSTEP_LAUNCHER": harness.LOCKSTEP}
        return run

    def test_ends(self):
        self.check(3, ("train",))
        self.check(3, ("slow",), ("--inject", "kill rank=1 txn=10; kill rank=2 txn=20 phase=exchange"))
        self.check(3, ("fails",), code=65)
        self.check(3, ("throws",), code=1)
        self.check(2, ("train",), ("--no-such-option",), code=2)

    def test_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            self.check(3, ("slow",), end=self.kill(number, 20), code=-number)

    def test_caller_killed(self):
        """The launcher ends the run in order: not even its socket's file is left."""
        for at in (1, 20):
            self.check(3, ("slow",), end=self.kill(signal.SIGKILL, at), code=-signal.SIGKILL)

    def test_launcher_killed(self):
        def end(run):
            run.until_committed(20)
            children = pathlib.Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text().split()
            self.assertEqual(len(children), 1)
            os.kill(int(children[0]), signal.SIGKILL)
        self.check(3, ("slow",), end=end, code=75, reserved=True)


class ByHand(LeftBehind):
    """One command for each rank, as torch's env:// has it; a shell starts them."""

    OUTLIVED = True

    def start(self, workers, options=(), launcher=(), output=None, **more):
        run = super().start(None, options, (), output, delayed=True)
        others = " ".join(map(str, range(1, workers)))
        run.command = ["sh", "-c", f'for rank in {others}; do RANK=$rank "$@" & done; RANK=0 "$@"; code=$?; wait; exit $code',
                       "sh", *run.command]
        run.env = {**run.env, "LOCKSTEP_LAUNCHER": harness.LOCKSTEP, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500",
                   "WORLD_SIZE": str(workers), **({"PET_INJECT": launcher[0]} if launcher else {})}
        return run

    def launcher(self, run):
        return next(pid for pid in harness.processes_of(run.output)
                    if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(harness.LOCKSTEP.encode()))

    def test_ends(self):
        self.assert_same(self.check(3, SHORT), SHORT)
        self.assert_same(self.check(3, SHORT, ("kill rank=1 txn=6 phase=backward",)), SHORT)
        self.check(3, SHORT + ("--data", "nowhere"), code=65)

    def test_all_killed(self):
        def end(run):
            run.until_committed(20)
            for member in run.members():
                os.kill(member["pid"], signal.SIGKILL)
        run = self.check(3, LONG + ("--checkpoint-every", 10), end=end, code=128 + signal.SIGKILL)
        self.assert_same(self.check(3, LONG + ("--checkpoint-every", 10), output=run.output), LONG)

    def test_launcher_killed(self):
        def end(run):
            run.until_committed(20)
            os.kill(self.launcher(run), signal.SIGKILL)
        run = self.check(3, LONG, end=end, code=1, reserved=True)
        self.assertIn("the launcher of this run is gone", run.err)

    def test_launcher_stopped_in_order(self):
        def end(run):
            run.until_committed(20)
            os.kill(self.launcher(run), signal.SIGTERM)
        run = self.check(3, LONG, end=end, code=75)
        again = self.check(2, LONG, output=run.output)
        self.assertIn("resuming from", again.err)
        self.assert_same(again, LONG)


class Leftovers(LeftBehind):
    """What an earlier launcher left under a reserved name goes at the next start."""

    def test_removed(self):
        for workers in (None, 2):
            run = self.run_to_end(2, SHORT + ("--max-steps", 5))
            for place in (".", "checkpoints", "incidents"):
                (run.output / place / ".tmp-lockstep-file").write_text("half")
                (run.output / place / ".tmp-lockstep-folder").mkdir()
                (run.output / place / ".tmp-lockstep-folder" / "file").write_text("half")
            self.assert_same(self.check(workers, SHORT, output=run.output), SHORT)


    def test_of_a_copy_that_is_stopped(self):
        source, there = self.folder / "source", self.folder / "there"
        source.mkdir()
        (source / "long").touch()
        os.truncate(source / "long", 64 << 30)  # no room is needed to read it
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            copy = subprocess.Popen([harness.LOCKSTEP, "copy", source, there], stderr=subprocess.PIPE, text=True,
                                    preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
            self.addCleanup(copy.kill)
            until(lambda: there.exists() and any(there.iterdir()), "the first bytes")
            copy.send_signal(number)
            self.assertIn("stopped before", copy.communicate(timeout=60)[1])
            self.assertEqual(copy.returncode, -number)
            self.assertEqual(list(there.iterdir()), [])


class ClosedStreams(LeftBehind):
    """Without standard streams nothing that is meant for them ends up in a file of the run."""

    def test_closed(self):
        for workers in (None, 2):
            run = self.start(workers, SHORT + ("--log-every", 1), delayed=True)
            run.command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *run.command]
            run.begin()
            self.assertEqual(run.wait().code, 0)
            reference = harness.undisturbed(SHORT)
            self.assertEqual(run.hashes(), reference["hashes"])
            for name in ("ledger.jsonl", "metrics.jsonl"):
                self.assertEqual(harness.records(run.output / name), reference[name])


class FileSizeLimit(LeftBehind):
    """`ulimit -f`: an error of the disk, not a death by SIGXFSZ."""

    def test_limit(self):
        run = self.start(None, SHORT, delayed=True)  # the launcher refuses such a limit at once
        run.command = ["sh", "-c", 'ulimit -f 20; exec "$@"', "sh", *run.command]
        run.begin()
        self.assertEqual(run.wait().code, 1, run.err)
        self.assertRegex(run.err, "error: .*File too large")
        self.assertEqual(run.err.count("error: "), 1, run.err)


class DiskFull(LeftBehind):
    """On a file system of 2 MiB that a foreign file fills once two checkpoints are there."""

    OPTIONS = LONG + ("--checkpoint-every", 10, "--optimizer", "adam", "--lr", 0.001, "--momentum", 0)
    # A checkpoint takes 116 KiB of model and 232 KiB of optimizer state, the records of the run 120 KiB: with ROOM the first
    # of the checkpoint's files finds its place, the second one none, and the records must not be in want meanwhile.
    ROOM = 300 << 10

    def setUp(self):
        super().setUp()
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", self.disk], check=True)
        self.addCleanup(subprocess.run, ["umount", self.disk], check=True)

    def fill(self, left):
        """All but `left` bytes."""
        def end(run):
            until(lambda: len(list(run.output.glob("checkpoints/step-*"))) >= 2, "two checkpoints", pause=0)
            with (self.disk / "filler").open("wb", buffering=0) as filler:
                try:
                    while filler.write(bytes(4096)):
                        pass
                except OSError:
                    pass
                filler.truncate(filler.tell() - left)
        return end

    def go_on(self, run):
        """With room again the old checkpoint serves: the same end as ever. Leaves the room to the next run."""
        (self.disk / "filler").unlink()
        again = self.check(3, self.OPTIONS, output=run.output)
        self.assertIn("resuming from", again.err)
        self.assert_same(again, self.OPTIONS)
        shutil.rmtree(run.output)

    def test_continue(self):
        def end(run):
            self.fill(self.ROOM)(run)
            until(lambda: "was not saved" in run.err_path.read_text(), "the warning")
            (self.disk / "filler").unlink()
        run = self.check(3, self.OPTIONS + ("--on-save-error", "continue"), end=end, output=self.disk / "run")
        self.assertRegex(run.err, "warning: the checkpoint after step [0-9]+ was not saved: .*No space left on device; training goes on")
        self.assertNotIn("error: ", run.err)
        self.assert_same(run, self.OPTIONS)

    def test_no_room_for_the_last(self):
        """A run whose weights are not on disk has not finished."""
        for workers in (3, None):
            run = self.check(workers, self.OPTIONS, end=self.fill(self.ROOM), output=self.disk / f"run{workers}", code=1)
            self.assertRegex(run.err, "error: .*the final weights are not on disk: .*No space left on device. The same command goes on")
            self.assertEqual(run.err.count("error: "), 1, run.err)
            self.assertNotIn("weights sha256", run.out)
            self.assertFalse((run.output / "result.json").exists())
            self.go_on(run)

    def test_stop(self):
        options = self.OPTIONS + ("--on-save-error", "stop")
        run = self.check(3, options, end=self.fill(self.ROOM), output=self.disk / "run", code=1)
        self.assertRegex(run.err, "error: .* the checkpoint after step [0-9]+ was not saved: .*No space left on device; stopped")
        self.assertEqual(run.err.count("error: "), 1, run.err)
        self.go_on(run)

    def test_no_room_for_records(self):
        for mode in ("continue", "stop"):
            run = self.check(3, self.OPTIONS + ("--on-save-error", mode), end=self.fill(0), output=self.disk / f"run-{mode}", code=1)
            self.assertRegex(run.err, "error: .*No space left on device")
            self.go_on(run)

    def test_alone(self):
        run = self.check(None, self.OPTIONS + ("--on-save-error", "stop"), end=self.fill(self.ROOM), output=self.disk / "run", code=1)
        self.assertEqual(run.err.count("error: "), 1, run.err)
        self.go_on(run)


if __name__ == "__main__":
    if why_not := harness.enter_namespaces():
        print(f"skipped: {why_not}")
        raise SystemExit(77)
    harness.main()
