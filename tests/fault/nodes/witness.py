"""A witness outside all machines: which worker of which attempt lives, by its own clock.

A worker's connection opens at its start, and the kernel closes it at its end, however that comes. So when a worker of an attempt
starts, the connections of all workers of earlier attempts must be closed: never two attempts at once. Workers that are stopped
(their machine sleeps) are let live until MOMENT after they have been woken.
"""
import contextlib
import json
import selectors
import socket
import struct
import threading
import time

from hosts import state_of

MOMENT = 2.0


class Worker:
    """What the witness knows of one: its environment, when it began and was gone, what it said."""

    def __init__(self, connection, pid):
        self.connection, self.pid, self.bytes = connection, pid, b""
        self.rank = self.attempt = self.world = self.host = None
        self.begun = time.monotonic()
        self.gone = self.done = self.ended = self.loss = None
        self.step = -1
        self.times = []  # of steps
        self.stale_since = None  # when one of a later attempt began while this one was stopped

    def __repr__(self):
        return f"<attempt {self.attempt} rank {self.rank} on {self.host}, process {self.pid}, step {self.step}>"

    def stopped(self):
        return state_of(self.pid) in "Tt"


class Witness:
    """Listens at `path`. Its lists may be read at any time; `violations` must be empty in the end."""

    def __init__(self, path):
        self.workers, self.violations, self.moment = [], [], MOMENT
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(128)
        self.selector, self.lock = selectors.DefaultSelector(), threading.RLock()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.closing = False
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def close(self):
        self.closing = True
        self.thread.join()
        for worker in self.alive():
            worker.connection.close()
        self.listener.close()
        self.selector.close()

    def watch(self):
        while not self.closing:
            ready = self.selector.select(0.02)
            with self.lock:
                started = [worker for key, _ in ready for worker in self.hear(key)]
                if started:  # what ended before they started has been told already, if not yet read
                    for key, _ in self.selector.select(0):
                        self.hear(key)
                for worker in started:
                    self.judge(worker)
                self.judge_stale()

    def hear(self, key):
        """The workers of which this was the start."""
        if key.data is None:
            connection = self.listener.accept()[0]
            pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            self.selector.register(connection, selectors.EVENT_READ, Worker(connection, pid))
            return []
        worker, started = key.data, []
        try:
            data = worker.connection.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if not data:
            worker.gone = time.monotonic()
            self.selector.unregister(worker.connection)
            worker.connection.close()
            return []
        *lines, worker.bytes = (worker.bytes + data).split(b"\n")
        for line in lines:
            started += self.told(worker, json.loads(line))
        return started

    def told(self, worker, said):
        what = said.pop("what")
        if what == "start":
            vars(worker).update(said)
            self.workers.append(worker)
            return [worker]
        if what == "step":
            worker.step = said["step"]
            worker.times.append(time.monotonic())
        if what == "loss":
            worker.loss = said["error"]
        if what in ("done", "end"):  # with its steps; with all
            setattr(worker, {"done": "done", "end": "ended"}[what], time.monotonic())
        return []

    def judge(self, new):
        for old in self.workers:
            if old is new or old.gone is not None or old.attempt > new.attempt:
                continue
            if old.attempt == new.attempt:
                if old.rank == new.rank:
                    self.violations.append(f"{new} started while {old} was alive")
            elif old.stopped():
                old.stale_since = old.stale_since or new.begun
            else:
                self.violations.append(f"{new} started while {old} was alive ({state_of(old.pid)})")
        if newer := [w for w in self.workers if w.attempt > new.attempt]:
            self.violations.append(f"{new} started after {newer[0]}")

    def judge_stale(self):
        now = time.monotonic()
        for worker in self.workers:
            if worker.stale_since and worker.gone is None:
                if worker.stopped():
                    worker.stale_since = now
                elif now - worker.stale_since > self.moment:
                    self.violations.append(f"{worker} of an attempt that is over lives {self.moment} s after it was woken")
                    worker.stale_since = None

    # What tests ask
    def alive(self):
        with self.lock:
            return [worker for worker in self.workers if worker.gone is None]

    def of(self, attempt):
        with self.lock:
            return sorted((w for w in self.workers if w.attempt == attempt), key=lambda w: w.rank)

    def attempt(self):
        """The newest that has begun; -1 before the first."""
        with self.lock:
            return max((worker.attempt for worker in self.workers), default=-1)

    def step(self):
        """The last that all workers of the newest attempt have done; -1: not all have."""
        with self.lock:
            now = self.of(self.attempt())
            return min(w.step for w in now) if now and len(now) == now[0].world else -1

    def wait(self, condition, what, seconds=30):
        end = time.monotonic() + seconds
        while not self.holds(condition):
            if time.monotonic() > end:
                raise AssertionError(f"waited {seconds} s for {what}; {self}")
            time.sleep(0.01)

    def holds(self, condition):
        with self.lock:  # what has been heard has been judged, too
            return condition()

    def until_works(self, attempt=0, more=3, seconds=30):
        """Waits until this attempt or a later one has all its workers, and these do `more` steps."""
        self.wait(lambda: self.attempt() >= attempt and self.step() >= 0, f"attempt {attempt}", seconds)
        goal = self.step() + more
        begun = self.attempt()
        self.wait(lambda: self.attempt() > begun or self.step() >= goal, "progress", seconds)
        return self.attempt()

    def __repr__(self):
        return f"attempt {self.attempt()}, step {self.step()}, alive {self.alive()}, violations {self.violations}"

    def check(self, seconds=5):
        with contextlib.suppress(AssertionError):
            self.wait(lambda: not self.alive(), "the end of all workers", seconds)
        problems = [*self.violations, *(f"{worker} was left behind" for worker in self.alive())]
        if problems:
            raise AssertionError("\n".join(problems))
