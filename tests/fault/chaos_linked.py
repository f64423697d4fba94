"""Faults at random in programs that link Lockstep, by seed, for a while: steps of several updates, carried rows, hooks.

    chaos --linked [--seed S] [--seconds T] [--jobs J] [--life K] [--only WORD]    (environment: harness.py, and FOLDERS)

A *life* is one run of a program that is drawn, from its beginning to its end, through faults that are drawn, too: workers, newcomers and
launchers are killed and paused, asked to stop, added and taken away, and what is gone is begun again by the same command, with another
number of workers. In the end weights, state, ledger and metrics are those of the undisturbed run. A run in which one of the kinds of
faults has not happened, within twice its time, fails. The moments are the machine's, and the rarest kinds come first: a seed gives the
same programs, not the same run; --life K lives that one alone, again and again. The suite's runs are short; by hand:
chaos --linked --seconds 600 --seed 7
"""
import collections
import functools
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
import traceback

from chaos_lives import play, rarest_first
from harness import LOCKSTEP, Run, built, ending, processes_of, records, scratch, undisturbed, until

MOST = 4  # workers: all programs have so many virtual workers

UPDATES = ("right", "draws", "accumulates", "ahead", "scaler", "both", "noise", "sits-out", "left-out", "nan-skip")
ROWS = ("right", "updates", "accumulates", "resets", "left-out", "nan-skip", "scaler", "trainer")
HOOKS = ("right", "updates", "nan-skip", "left-out", "clips", "scaler", "writes-gradient", "optimizer-writes", "trainer", "masters",
         "trainer-steps", "trainer-steps-scaler", "trainer-plateau")
PHASES = ("slow", "later", "masters", "scaled", "hook", "gan-toggles")  # of few steps
SMALL = ("--virtual-workers", "4", "--batch-size", "4", "--log-every", "0")


def programs():
    """Each a name and what gives its command's words, for so many dozen steps, in a run directory."""
    def loop(worker, case, before=()):
        return f"{worker} {case}", lambda dozens, output: [built(f"{worker}_worker"), case, str(output), *before, str(dozens)]

    def example(name, every, *options):
        def words(dozens, output):
            length = ("--max-steps", str(12 * dozens), "--checkpoint-every", every)
            return [built(name), *SMALL, *length, *options, "--output", str(output)]
        return f"{name} {every}", words

    yield from (loop("updates", case) for case in UPDATES)
    yield from (loop("rows", case, ("4",)) for case in ROWS)
    yield from (loop("hooks", case) for case in HOOKS)
    yield from (loop("phases", case) for case in PHASES)
    yield "updates free", lambda dozens, output: [built("updates_worker"), f"free-updates-{12 * dozens}", str(output)]
    yield "ppo", lambda dozens, output: [built("ppo"), *SMALL[:2], "--updates", "3", "--lr", "0.005", "--log-every", "0", "--max-steps", str(2 * dozens),
                                         "--checkpoint-every", "2", "--output", str(output)]
    for every in ("1", "5"):
        yield example("gan", every)
        yield example("language_model", every, "--batch-size", "1", "--pieces", "60")
        yield example("moving_average", every, "--evaluate-every", "8ba")


@functools.cache
def program(name, dozens):
    return functools.partial(dict(programs())[name], dozens)


class Life:
    def __init__(self, seed, number, seen, only=""):
        self.dice = random.Random(f"{seed} {number}")
        self.seen = seen  # faults of all lives before
        self.name = self.dice.choice([name for name, _ in programs() if only in name])
        self.dozens = self.dice.randint(6, 14)
        self.program = program(self.name, self.dozens)
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=scratch(), prefix="life-"))
        self.output, self.told = self.folder / "run", []
        self.tried, self.fired = collections.Counter(), collections.Counter()

    def say(self, what):
        self.told.append(what)

    def live(self):
        wanted = undisturbed(program=self.program)
        faults = self.dice.randint(2, 9)
        while True:
            self.start(len(wanted["metrics.jsonl"]))
            while self.run.process.poll() is None and faults > 0:
                faults -= 1
                self.disturb()
            self.until(lambda: False, "the end")
            self.run.wait()
            if self.run.code == 0:
                break
            if self.run.code not in (75, *self.ends, *((1,) if self.crashes else ())):
                self.run.fail(f"exit code {self.run.code}")
            self.check_nothing_is_left()
        self.run.expect(0)
        self.deaths = len(self.run.victims())
        found = ending(self.run)
        for part, value in wanted.items():
            if found[part] != value:
                self.run.fail(f"{part} differs: {self.first_difference(found[part], value)}")
        shutil.rmtree(self.folder)
        return self.fired

    @staticmethod
    def first_difference(found, wanted):
        if isinstance(found, dict):
            return f"{found}, not {wanted}"
        at = next((i for i, pair in enumerate(zip(found, wanted)) if pair[0] != pair[1]), min(len(found), len(wanted)))
        return f"record {at} of {len(found)} and {len(wanted)}: {found[at:at + 1]}, not {wanted[at:at + 1]}"

    def start(self, txns):
        self.workers, self.ends, self.crashes = self.dice.randint(1, MOST), (), False
        options = ["--max-replacements", 99, "--max-restarts", self.dice.choice((0, 1, 20)), "--stop-grace", 0.3]
        done = len(records(self.output / "metrics.jsonl"))
        if self.dice.random() < 0.6:
            options += ["--inject", "; ".join(self.rule(done, txns) for _ in range(self.dice.randint(1, 4)))]
        self.say(f"{self.workers} workers {' '.join(map(str, options[2:]))}")
        self.run = Run(self.output, self.workers, launcher=options, program=self.program(self.output))

    def rule(self, done, txns):
        """A fault of --inject, at a border of a transaction that is yet to come, or of a newcomer."""
        action = self.dice.choice(("kill", "kill", "kill", "stop", "segv"))
        self.crashes |= action == "segv"
        if self.dice.random() < 0.2:
            return f"{action} rank={self.dice.choice(('new', '0', '1'))} phase=heal"
        phase = self.dice.choice(("data", "forward", "backward", "exchange", "optimizer", "idle", "snapshot", "done"))
        txn = "" if phase in ("snapshot", "done") else f" txn={self.dice.randint(done, txns)}"
        return f"{action} rank={self.dice.randrange(self.workers)}{txn} phase={phase}"

    def until(self, condition, what, seconds=120):
        """Or the launcher has ended. If all are stopped the run waits for somebody who continues them, as there is for a while."""
        end, moved = time.monotonic() + seconds, time.monotonic()
        while self.run.process.poll() is None and not condition():
            if time.monotonic() > moved + 1:
                moved = time.monotonic()
                for pid in processes_of(self.output):
                    self.send(pid, signal.SIGCONT)
            if time.monotonic() > end:
                self.run.fail(f"waited {seconds} s for {what}")
            time.sleep(0.002)

    def disturb(self):
        at = self.run.committed() + self.dice.choice((0, self.dice.randint(1, 30)))
        self.until(lambda: self.run.committed() >= at, f"{at} transactions")
        time.sleep(self.dice.uniform(0, 0.02))
        for _ in range(self.dice.choice((1, 1, 2))):
            kind = rarest_first(self.dice, KINDS, self.seen + self.tried)[0]
            self.tried[kind] += 1
            if self.run.process.poll() is None and getattr(self, f"do_{kind}")():
                self.fired[kind] += 1
                self.say(f"{kind} at {self.run.committed()}")

    def check_nothing_is_left(self):
        until(lambda: not processes_of(self.output), "the workers' end", 10)

    # Faults. False: it did not happen.
    def send(self, pid, number):
        try:
            os.kill(pid, number)
            return True
        except ProcessLookupError:
            return False

    def pids(self, members):
        pids = [member["pid"] for member in members]
        return self.dice.sample(pids, len(pids))

    def do_kill_worker(self):
        return any(self.send(pid, signal.SIGKILL) for pid in self.pids(self.run.members())[:1])

    def do_kill_two(self):
        return sum(self.send(pid, signal.SIGKILL) for pid in self.pids(self.run.members())[:2]) == 2

    def do_kill_newcomer(self):
        """One that is no member yet; there is one for a while where somebody has died, so that comes first."""
        self.do_kill_worker()
        end, found = time.monotonic() + 1, []
        while not found and self.run.process.poll() is None and time.monotonic() < end:
            found = [m["pid"] for m in self.run.status()["members"] if m["rank"] is None]
        time.sleep(self.dice.uniform(0, 0.1))
        return any(self.send(pid, signal.SIGKILL) for pid in found)

    def do_kill_all(self):
        return sum([self.send(pid, signal.SIGKILL) for pid in self.pids(self.run.status()["members"])]) > 0

    def do_kill_launcher(self):
        return self.end_by(signal.SIGKILL)

    def do_terminate(self):
        return self.end_by(signal.SIGTERM)

    def do_interrupt(self):
        return self.end_by(signal.SIGINT)

    def do_terminate_workers(self):
        """What a service manager does: all processes of the job."""
        pids = self.pids(self.run.members())
        return not self.ends and any([self.send(pid, signal.SIGTERM) for pid in pids]) and self.end_by(signal.SIGTERM)

    def end_by(self, number):
        if self.ends:
            return False
        self.ends = (128 + number, -number)  # the latter where the launcher has no handler yet
        self.run.send(number)
        return True

    def pause(self, seconds):
        paused = [pid for pid in self.pids(self.run.members())[:1] if self.send(pid, signal.SIGSTOP)]
        time.sleep(seconds)
        return bool([self.send(pid, signal.SIGCONT) for pid in paused])

    def do_pause(self):
        return self.pause(self.dice.uniform(0.01, 0.2))

    def do_pause_beyond_the_grace(self):
        return self.pause(self.dice.uniform(0.4, 0.8))

    def do_pause_launcher(self):
        self.run.send(signal.SIGSTOP)
        time.sleep(self.dice.uniform(0.01, 0.3))
        self.run.send(signal.SIGCONT)
        return True

    def scale(self, workers):
        done = subprocess.run([LOCKSTEP, "scale", self.output, str(workers)], capture_output=True, text=True)
        if done.returncode not in (0, 69) and "the run is about to end" not in done.stderr:
            self.run.fail(f"scale {workers}: {done.returncode}: {done.stderr}")
        self.say(f"scaled to {workers}: {done.returncode}")
        return done.returncode == 0

    def do_scale_up(self):
        return self.scale(self.dice.randint(2, MOST))

    def do_scale_down(self):
        return self.scale(self.dice.randint(1, 2))

    def do_scale_there_and_back(self):
        return self.scale(1) and self.scale(MOST)


KINDS = [name[3:] for name in dir(Life) if name.startswith("do_")]


def live(seed, number, seen, only):
    """The faults that happened; None: it has failed."""
    life = Life(seed, number, seen, only)
    try:
        life.live()
    except Exception as error:
        what = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
        again = f"chaos --linked --seed {seed} --life {number}" + (f" --only '{only}'" if only else "")
        print(f"FAILED: {again}: {life.name}, {life.dozens} dozen steps, in {life.folder}\n" + "\n".join(life.told) + f"\n{what}", flush=True)
        return None
    print(f"life {number}: {life.name}, {life.dozens} dozen steps, {life.deaths} deaths: {dict(life.fired)}", flush=True)
    return life.fired


def main(given):
    """True: all is well."""
    print(f"seed {given.seed}", flush=True)
    scratch()  # before there are threads
    return play(given, KINDS, lambda number, seen: live(given.seed, number, seen, given.only))
