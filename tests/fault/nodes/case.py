"""A test with machines of its own."""
import os
import signal
import time
import unittest

from nodes.job import Job
import hosts

START, MIDDLE, END = "start", "middle", "end"
SLACK = 5.0  # of a busy machine


class OnMachines(unittest.TestCase):
    def bed(self, count, **more):
        bed = hosts.Bed(count, **more)
        self.addCleanup(bed.close)
        return bed

    def job(self, count=3, machines=None, start=True, **more):
        """A run on `count` machines, or these of a bed; all its launchers have been started, unless `start` is False."""
        bed = more.pop("bed", None) or self.bed(count)
        job = Job(bed, machines and [bed[i] for i in machines], **more)
        self.addCleanup(job.__exit__)
        return job.start_all() if start else job

    def at(self, when, job):
        """Waits for the moment of a fault: nothing is there yet; workers work; all but the last rank's have ended."""
        if when == MIDDLE:
            job.until_works()
        if when == END:
            job.until_works()
            job.finish()
            workers = job.witness.of(0)
            job.witness.wait(lambda: all(w.gone for w in workers[:-1]) and workers[-1].done, "the end of all but one")
        return job.witness.attempt()

    def ends_well(self, job):
        """After the fault: the next attempt works and ends with 0, on all machines."""
        job.finish()
        job.expect(0)

    def kill_worker(self, worker):
        os.kill(worker.pid, signal.SIGKILL)
        return time.monotonic()
