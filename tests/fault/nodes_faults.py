#!/usr/bin/env python3
"""Faults of a run over several machines, one to a test: workers, launchers and machines killed, paused and cut off.

    nodes_faults.py [CLASS[.test] ...]    (environment: nodes/__init__.py)

In each the witness must not see two attempts at once, the launchers end as documented, nothing is left on any machine, and the fault
has been seen to happen. L is 2 s, where nothing is to come of it more. Exit 77: skipped, where the system has no machines.
"""
import signal
import time

from nodes import parallel
from nodes.case import END, MIDDLE, SLACK, START, OnMachines
from nodes.job import CALM, CALM_LIMIT, FORMING, LIMIT
import hosts


class Killed(OnMachines):
    def killed_worker(self, job, index, attempt):
        worker = job.worker_on(job.bed[index])
        at = self.kill_worker(worker)
        job.witness.wait(lambda: worker.gone, "the death of the worker")
        job.until_works(attempt + 1)
        begun = [w.begun - at for w in job.witness.of(attempt + 1)]
        self.assertLess(max(begun), 1 + SLACK, "new processes everywhere within 1 s of the death")

    def test_worker(self):
        for index in (1, 3):
            with self.subTest(machine=index):
                job = self.job()
                self.killed_worker(job, index, self.at(MIDDLE, job))
                self.ends_well(job)

    def test_worker_at_the_start(self):
        job = self.job(per_node=2)
        job.witness.wait(lambda: job.worker_on(job.bed[2]), "the first worker of host2")
        self.killed_worker(job, 2, 0)
        self.ends_well(job)

    def test_worker_at_the_end(self):
        """Those that have ended with 0 are started again with it."""
        job = self.job(worker=("--linger", "2:5"))
        attempt = self.at(END, job)
        self.kill_worker(job.worker_on(job.bed[3]))
        job.expect(0)
        self.assertEqual(len(job.witness.of(attempt + 1)), 3)
        self.assertTrue(all(w.ended for w in job.witness.of(attempt + 1)))

    def test_workers_that_hang_for_the_dead_one(self):
        job = self.job(4, worker=("--on-loss", "hang", "--child"), per_node=2)
        self.killed_worker(job, 2, self.at(MIDDLE, job))
        self.ends_well(job)

    def agent_killed(self, when, index, count=3, **more):
        """Killed, and started again after a while in which the others wait for it."""
        job = self.job(count, **more)
        attempt = self.at(when, job)
        agent = job.agents[job.bed[index]]
        if when == START:
            time.sleep(0.05)
        agent.send_signal(signal.SIGKILL)
        self.assertEqual(agent.wait(10), -signal.SIGKILL)
        if when != START:
            job.witness.wait(lambda: not job.witness.alive(), "the end of all workers", LIMIT + SLACK)
        job.start(job.bed[index])
        if when != END:
            job.until_works(attempt + 1)
        self.ends_well(job)

    def test_agent(self):
        self.agent_killed(MIDDLE, 2, worker=("--child",))

    def test_agent_at_the_start(self):
        self.agent_killed(START, 3)

    def test_agent_at_the_end(self):
        self.agent_killed(END, 3, worker=("--linger", "2:60"))

    def test_agent_whose_workers_have_ended(self):
        """Nobody knows any more how they ended: all begin again."""
        self.agent_killed(END, 2, worker=("--linger", "2:60"))

    def test_leader(self):
        self.agent_killed(MIDDLE, 1, worker=("--child",))

    def test_leader_at_the_start(self):
        self.agent_killed(START, 1)

    def test_leader_at_the_end(self):
        self.agent_killed(END, 1, worker=("--linger", "2:60"))

    def test_no_restart_left(self):
        """The others end at once, with the cause."""
        for index, loss in ((1, "hang"), (3, "hang"), (3, "exit")):
            with self.subTest(machine=index, loss=loss):
                job = self.job(options={"max-restarts": 0}, worker=("--on-loss", loss))
                self.at(MIDDLE, job)
                job.kill(job.bed[index])
                at = time.monotonic()
                job.expect(69)
                self.assertLess(time.monotonic() - at, (LIMIT if index == 1 else 1) + 2 * SLACK)

    def machine_killed(self, when, index, count=3, boot=True, **more):
        job = self.job(count, **more)
        attempt = self.at(when, job)
        if when == START:
            time.sleep(0.05)
        job.bed[index].kill()
        at = time.monotonic()
        if when != START:
            job.witness.wait(lambda: not job.witness.alive(), "the fence", LIMIT + SLACK)
        if time.monotonic() - at < 1:
            time.sleep(1)
        job.bed[index].boot()
        job.start(job.bed[index])
        if when != END:
            job.until_works(attempt + 1, seconds=LIMIT + 1 + FORMING)
        self.ends_well(job)

    def test_machine(self):
        self.machine_killed(MIDDLE, 3)

    def test_machine_of_four(self):
        self.machine_killed(MIDDLE, 2, 4, per_node=2)

    def test_machine_of_two(self):
        self.machine_killed(MIDDLE, 2, 2)

    def test_machine_at_the_start(self):
        self.machine_killed(START, 2)

    def test_machine_at_the_end(self):
        self.machine_killed(END, 3, worker=("--linger", "2:60"))

    def test_machine_of_the_leader(self):
        self.machine_killed(MIDDLE, 1)

    def test_machine_of_the_leader_of_two(self):
        self.machine_killed(MIDDLE, 1, 2)


class BelowL(OnMachines):
    """Silence between L / 3, when nodes dial anew, and L costs nothing. L is 15 s: longer than what is waited for a closed connection."""

    LONG = 15

    def cut(self, bed, job, seconds):
        bed.isolate(1)
        time.sleep(seconds)
        self.assertGreater(bed.dropped(), 0)
        bed.heal()

    def pause_machine(self, bed, job, seconds):
        bed[1].pause()
        time.sleep(seconds)
        bed[1].wake()

    def pause_launcher(self, bed, job, seconds):
        job.agents[bed[1]].send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        job.agents[bed[1]].send_signal(signal.SIGCONT)

    def silent(self, restarts, *silences):
        """Of the leader, one after the other: [(how, seconds)]."""
        job = self.job(options={"max-restarts": restarts}, conf="keep_alive_interval=5,keep_alive_max_attempt=3", worker=("--on-loss", "hang"))
        self.at(MIDDLE, job)
        for how, seconds in silences:
            how(job.bed, job, seconds)
            time.sleep(2)  # what it has cost would be seen by now
            self.assertEqual(job.witness.attempt(), 0, job.log())
        self.ends_well(job)
        self.assertEqual(job.witness.attempt(), 0, job.log())

    def test_cuts(self):
        self.silent(0, (self.cut, 0.5 * self.LONG))

    def test_long_cuts(self):
        self.silent(3, (self.cut, 0.75 * self.LONG))

    def test_pauses(self):
        self.silent(3, (self.pause_machine, 0.5 * self.LONG))

    def test_long_pauses(self):
        self.silent(0, (self.pause_launcher, 0.75 * self.LONG))


class Stopped(OnMachines):
    """Pauses of machines and of launchers."""

    def pause(self, job, index, seconds, until=lambda: True):
        machine = job.bed[index]
        machine.pause()
        self.assertTrue(all(hosts.state_of(pid) in "TZX" for pid in machine.pids()) and machine.pids())
        time.sleep(seconds)
        job.witness.wait(until, "the fence of the others", SLACK)
        machine.wake()

    def test_short(self):
        """Below L, less a few heartbeats, nothing happens."""
        job = self.job(conf=CALM)
        for index in (1, 2):
            self.at(MIDDLE, job)
            time.sleep(LIMIT / 4)
            self.pause(job, index, CALM_LIMIT * 0.6)
        self.assertEqual(job.until_works(), 0, job.log())
        self.ends_well(job)

    def long(self, index, count=3, **more):
        job = self.job(count, **more)
        self.at(MIDDLE, job)
        self.pause(job, index, LIMIT + 2, lambda: all(w.gone for w in job.witness.of(0) if w.host != job.bed[index].name))
        self.assertEqual(job.until_works(1), 1, job.log())
        self.ends_well(job)

    def test_long(self):
        self.long(2)

    def test_long_of_four(self):
        self.long(4, 4, per_node=2, worker=("--child",))

    def test_long_of_the_leader(self):
        self.long(1)

    def test_longer_than_a_replacement_waits(self):
        """Another machine has the rank by then: the sleeper is told so when it wakes, and ends."""
        bed = self.bed(4)
        job = self.job(bed=bed, machines=(1, 2, 3))
        self.at(MIDDLE, job)
        bed[3].pause()
        old = job.replace(bed[3], bed[4])
        self.assertEqual(job.until_works(1, seconds=3 * LIMIT + 1 + FORMING), 1)
        bed[3].wake()
        self.assertEqual(old.wait(LIMIT + FORMING), 69)
        self.assertEqual(job.until_works(1), 1, job.log())
        self.ends_well(job)

    def test_one_launcher(self):
        """SIGSTOP to a launcher alone: its workers go on, until the fence; it is its machine that ends them."""
        job = self.job()
        self.at(MIDDLE, job)
        agent = job.agents[job.bed[3]]
        agent.send_signal(signal.SIGSTOP)
        time.sleep(LIMIT + 2)
        agent.send_signal(signal.SIGCONT)
        job.until_works(1)
        self.ends_well(job)


class Cut(OnMachines):
    def cut(self, count, how, seconds, new_attempt, **more):
        job = self.job(count, worker=("--on-loss", "hang"), **more)
        self.at(MIDDLE, job)
        how(job.bed)
        at = time.monotonic()
        time.sleep(seconds)
        self.assertGreater(job.bed.dropped(), 0)
        if new_attempt:
            job.witness.wait(lambda: all(w.gone for w in job.witness.of(0)), "the fence of all", LIMIT + 0.5 + SLACK)
            self.assertLess(max(w.gone - at for w in job.witness.of(0)), LIMIT + 0.5 + SLACK)
        job.bed.heal()
        self.assertEqual(job.until_works(int(new_attempt), seconds=LIMIT + 1 + 2 * FORMING), int(new_attempt), job.log())
        self.ends_well(job)
        return job

    # What TCP has to send again after a cut comes at the latest after twice its time.
    SHORT, LONG = CALM_LIMIT / 4, LIMIT + 2

    def test_pair_short(self):
        self.cut(3, lambda bed: bed.cut([2], [3]), self.SHORT, False, conf=CALM)

    def test_pair_without_the_leader(self):
        """The launchers of a star do not see it; the workers go on when it is over."""
        self.cut(3, lambda bed: bed.cut([2], [3]), self.LONG, False)

    def test_pair_with_the_leader(self):
        self.cut(3, lambda bed: bed.cut([1], [3]), self.LONG, True)

    def test_node_short(self):
        self.cut(3, lambda bed: bed.isolate(2), self.SHORT, False, conf=CALM)

    def test_node(self):
        self.cut(3, lambda bed: bed.isolate(2), self.LONG, True)

    def test_leader_short(self):
        self.cut(4, lambda bed: bed.isolate(1), self.SHORT, False, conf=CALM)

    def test_leader(self):
        self.cut(4, lambda bed: bed.isolate(1), self.LONG, True)

    def test_halves_short(self):
        self.cut(4, lambda bed: bed.cut([1, 2], [3, 4]), self.SHORT, False, conf=CALM)

    def test_halves(self):
        self.cut(4, lambda bed: bed.cut([1, 2], [3, 4]), self.LONG, True, per_node=2)

    def test_two(self):
        self.cut(2, lambda bed: bed.cut([1], [2]), self.LONG, True)

    def test_one_way_to_the_leader(self):
        self.cut(3, lambda bed: bed.cut_one_way([3], [1]), self.LONG, True)

    def test_one_way_from_the_leader(self):
        self.cut(3, lambda bed: bed.cut_one_way([1], [3]), self.LONG, True)

    def test_one_way_short(self):
        self.cut(3, lambda bed: bed.cut_one_way([1], [2]), self.SHORT, False, conf=CALM)

    def test_while_forming(self):
        bed = self.bed(3)
        bed.isolate(3)
        job = self.job(bed=bed)
        time.sleep(LIMIT + 1)
        self.assertEqual(job.witness.attempt(), -1, "nothing starts without all")
        bed.heal()
        self.assertEqual(job.until_works(seconds=2 * FORMING), 0)
        self.ends_well(job)

    def test_replaced_while_cut_off(self):
        """Its workers are dead when the others' new ones start; when it is healed it is told, and ends."""
        bed = self.bed(4)
        job = self.job(bed=bed, machines=(1, 2, 3))
        self.at(MIDDLE, job)
        bed.isolate(3)
        old = job.replace(bed[3], bed[4])
        self.assertEqual(job.until_works(1, seconds=3 * LIMIT + 1 + FORMING), 1)
        bed.heal()
        self.assertEqual(old.wait(LIMIT + 2 * FORMING), 69)
        self.assertEqual(job.until_works(1), 1, job.log())
        self.ends_well(job)


class Signalled(OnMachines):
    """The first signal that the leader hears is everybody's end."""

    def signalled(self, number, index, when=MIDDLE, **more):
        job = self.job(**more)
        self.at(when, job)
        if when == START:
            job.until_said(job.bed[index], "wait")
        job.agents[job.bed[index]].send_signal(number)
        job.expect(128 + number, seconds=15)

    def test_term(self):
        self.signalled(signal.SIGTERM, 3, worker=("--child",))

    def test_term_to_the_leader(self):
        self.signalled(signal.SIGTERM, 1)

    def test_int(self):
        self.signalled(signal.SIGINT, 2)

    def test_term_to_all(self):
        job = self.job(per_node=2, worker=("--child",))
        self.at(MIDDLE, job)
        for agent in job.agents.values():
            agent.send_signal(signal.SIGTERM)
        job.expect(143, seconds=15)

    def saving(self, lost=None):
        """TERM to one launcher: what the others' workers do then, for longer than any fence, is not cut short."""
        job = self.job(options={"shutdown-timeout": 30}, worker=("--save", 3 * LIMIT + 2))
        self.at(MIDDLE, job)
        job.agents[job.bed[2]].send_signal(signal.SIGTERM)
        if lost:
            time.sleep(0.5)
            job.kill(job.bed[lost])
        job.expect(143, seconds=25)
        self.assertEqual([w.ended is not None for w in job.witness.of(0)], [i != lost for i in (1, 2, 3)], job.log())

    def test_g6_saving(self):
        self.saving()

    def test_g6_saving_while_a_launcher_is_lost(self):
        self.saving(3)

    def test_without_a_leader(self):
        """Each ends alone, with its signal's code."""
        job = self.job()
        self.at(MIDDLE, job)
        job.kill(job.bed[1])
        job.agents[job.bed[2]].send_signal(signal.SIGTERM)
        job.agents[job.bed[3]].send_signal(signal.SIGINT)
        job.expect(143, 130, seconds=15)


if __name__ == "__main__":
    parallel.main()
