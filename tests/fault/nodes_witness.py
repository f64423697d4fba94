#!/usr/bin/env python3
"""What the tests over several machines rely on: the witness, and the search for what is left behind, see what must not be.

Exit 77: skipped, where the system has no machines.
"""
import sys
import time

from nodes import parallel
from nodes.case import OnMachines
from nodes.job import Job
from nodes.witness import Witness

TELLS = """
import json, os, socket, sys, time
witness = socket.socket(socket.AF_UNIX)
witness.connect("/srv/witness")
rank, attempt, seconds = sys.argv[1:]
witness.sendall(json.dumps({"what": "start", "rank": int(rank), "attempt": int(attempt), "world": 1, "host": socket.gethostname()}).encode() + b"\\n")
time.sleep(float(seconds))
"""


class TheWitness(OnMachines):
    """What the other tests rely on: it sees what must not be."""

    def setUp(self):
        super().setUp()
        self.machines = self.bed(2)
        self.witness = Witness(self.machines.folder / "witness")
        self.addCleanup(self.witness.close)

    def worker(self, machine, rank, attempt, seconds=60):
        process = self.machines[machine].start(sys.executable, "-SEc", TELLS, rank, attempt, seconds)
        there = (self.machines[machine].name, rank, attempt)
        self.witness.wait(lambda: there in [(w.host, w.rank, w.attempt) for w in self.witness.workers], "the worker")
        return process

    def test_two_attempts_at_once(self):
        self.worker(1, 0, 0)
        self.worker(2, 0, 1)
        with self.assertRaisesRegex(AssertionError, "attempt 1 rank 0 on host2.* started while <attempt 0 rank 0 on host1.* was alive"):
            self.witness.check(seconds=1)

    def test_one_after_the_other(self):
        self.worker(1, 0, 0, 0.1).wait()
        self.worker(2, 0, 1, 0.1).wait()
        self.witness.check()

    def test_backwards_and_twice(self):
        self.worker(1, 0, 1, 0.1).wait()
        self.worker(2, 0, 0, 0.1).wait()
        self.assertRegex("\n".join(self.witness.violations), "attempt 0 .* started after <attempt 1")
        self.worker(1, 5, 2)
        self.worker(2, 5, 2)
        self.assertRegex("\n".join(self.witness.violations), "attempt 2 rank 5 on host2.* while <attempt 2 rank 5 on host1")

    def test_sleepers(self):
        """May be there until a moment after they are woken."""
        self.witness.moment = 2
        first = self.worker(1, 0, 0)
        self.machines[1].pause()
        self.worker(2, 0, 1, 1)
        time.sleep(1)
        self.assertEqual(self.witness.violations, [])
        self.machines[1].wake()
        time.sleep(0.1)
        self.assertEqual(self.witness.violations, [])
        self.witness.wait(lambda: self.witness.violations, "the violation")
        self.assertRegex("\n".join(self.witness.violations), "of an attempt that is over lives 2 s after it was woken")
        first.kill()

    def test_what_is_left_behind(self):
        self.worker(1, 0, 0)
        with self.assertRaisesRegex(AssertionError, "<attempt 0 rank 0 on host1.* was left behind"):
            self.witness.check(seconds=1)
        self.machines[1].kill_all()
        self.witness.check()
        job = Job.__new__(Job)
        job.machines, job.given_up = list(self.machines), set()
        job.check_clean()
        self.machines[2].run("touch", "/tmp/file")
        with self.assertRaisesRegex(AssertionError, "host2: files and sockets\n/tmp/file"):
            job.check_clean(seconds=1)
        self.machines[2].run("rm", "/tmp/file")
        for text in ("listener = socket.create_server(('', 0))", "listener = socket.socket(socket.AF_UNIX); listener.bind('\\0name')"):
            left = self.machines[2].start(sys.executable, "-SEc", f"import socket, time; {text}; print(flush=True); time.sleep(60)", stdout=-1)
            left.stdout.readline()
            with self.assertRaisesRegex(AssertionError, "host2: processes .*\n.*host2: files and sockets\n.*(@name| 0A )"):
                job.check_clean(seconds=1)
            left.kill()
            left.communicate()
        job.check_clean()


if __name__ == "__main__":
    parallel.main()
