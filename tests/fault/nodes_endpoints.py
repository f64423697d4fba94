#!/usr/bin/env python3
"""Leaders in turn, at a list of endpoints: the leader's machine is lost, cut off, or started again, and the run goes on by one restart.

    nodes_endpoints.py [CLASS[.test] ...]    (environment: nodes/__init__.py)

Exit 77: skipped, where the system has no machines.
"""
import re
import signal
import sys
import time

from nodes import LOCKSTEP, parallel
from nodes.case import MIDDLE, SLACK, OnMachines
from nodes.job import CALM, CALM_LIMIT, FORMING, KEY, LIMIT

LIST = "host1,host2,host3"
# Until another launcher leads after a silence, and has waited for the fence; and then for the workers.
NEXT = LIMIT + 0.75 + SLACK
AGAIN = NEXT + LIMIT + 1 + FORMING
LEADS_HERE = "nobody leads: this launcher does"


class Endpoints(OnMachines):
    def run_in_turn(self, count=3, **more):
        job = self.job(bed=self.bed(count), machines=more.pop("machines", (1, 2, 3)), endpoint=more.pop("endpoint", LIST), **more)
        return job

    def lose(self, job, index, spare):
        """The machine, for good; a spare one gets its rank."""
        job.bed[index].kill()
        old = job.replace(job.bed[index], job.bed[spare])
        old.wait(10)

    def ask(self, machine, *words):
        return machine.run(LOCKSTEP, *words, env={"LOCKSTEP_RUN_KEY": KEY}, check=False).stdout

    def until_shown(self, machine, pattern):
        """By `lockstep status` of the launcher there."""
        end = time.monotonic() + 10
        while not re.search(pattern, shown := self.ask(machine, "status", "--id", "test")):
            self.assertLess(time.monotonic(), end, f"waited for '{pattern}'; {machine.name}: {shown}")

    def until_listens(self, machine):
        """Somebody at the place there; of launchers whoever leads."""
        end = time.monotonic() + 10
        while not re.search(rf":{29400:04X} \S+ 0A", machine.run("sh", "-c", "cat /proc/net/tcp*").stdout):
            self.assertLess(time.monotonic(), end, f"nobody listens on {machine.name}")
            time.sleep(0.02)


class Lost(Endpoints):
    def test_the_leaders_machine_and_a_spare_comes(self):
        job = self.run_in_turn(4, worker=("--on-loss", "hang"))
        self.at(MIDDLE, job)
        self.lose(job, 1, 4)
        self.assertEqual(job.until_works(1, seconds=AGAIN), 1)
        self.assertRegex(job.said(job.bed[2]), LEADS_HERE + ", at host2:29400")
        self.assertIn("restart 1 of 1000", job.said(job.bed[3]))
        self.assertRegex(self.ask(job.bed[4], "status", LIST), "10.77.0.2.*leads|leads.*10.77.0.2|node 1 leads")
        job.bed[1].boot()  # too late: its rank is another one's
        late = job.bed[1].start(*job.command(job.bed[1]), env=job.environment(), stderr=-1, text=True)
        told = late.communicate(timeout=10)[1]
        self.assertIn(late.returncode, (2, 69), told)
        self.assertRegex(told, "rank 0.*10.77.0.4")
        self.assertEqual(job.until_works(1), 1)
        self.ends_well(job)

    def test_one_leader_after_the_other(self):
        """The last one leads; then all are stopped by whoever leads."""
        job = self.run_in_turn(4, worker=("--on-loss", "hang"))
        self.at(MIDDLE, job)
        self.lose(job, 1, 4)
        job.until_works(1, seconds=AGAIN)
        agent = job.agents[job.bed[2]]
        agent.send_signal(signal.SIGKILL)
        agent.wait(10)
        job.until_said(job.bed[3], LEADS_HERE + ", at host3:29400", NEXT)
        job.start(job.bed[2])
        self.assertEqual(job.until_works(2, seconds=AGAIN), 2)
        told = self.ask(job.bed[4], "stop", LIST)
        self.assertRegex(told, r"is told to stop, as by SIGTERM: it was running, attempt 3 \(")
        self.assertNotIn("told node", told)  # of one that does not lead
        job.expect(143)

    def test_the_leaders_launcher_alone(self):
        """It is started again, and is a node of the run that it has led."""
        job = self.run_in_turn(worker=("--on-loss", "hang"))
        self.at(MIDDLE, job)
        agent = job.agents[job.bed[1]]
        agent.send_signal(signal.SIGKILL)
        agent.wait(10)
        job.until_said(job.bed[2], LEADS_HERE, 1 + 0.75 + SLACK)
        job.start(job.bed[1])
        self.assertEqual(job.until_works(1, seconds=AGAIN), 1)
        self.ends_well(job)

    def test_within_a_second(self):
        """As with one endpoint: it leads again, and nothing is waited for."""
        job = self.run_in_turn()
        self.at(MIDDLE, job)
        agent, others = job.agents[job.bed[1]], [job.agents[job.bed[index]] for index in (2, 3)]
        for other in others:  # to whom it is a second, however long this takes
            other.send_signal(signal.SIGSTOP)
        agent.send_signal(signal.SIGKILL)
        agent.wait(10)
        job.start(job.bed[1])
        self.until_listens(job.bed[1])
        for other in others:
            other.send_signal(signal.SIGCONT)
        job.until_works(1, seconds=FORMING)
        self.assertNotIn(LEADS_HERE, job.said(job.bed[2]))
        self.ends_well(job)


class CutOff(Endpoints):
    def test_healed(self):
        """Nobody has taken its rank: of two that wait for others the first goes on."""
        job = self.run_in_turn(worker=("--on-loss", "hang"))
        self.at(MIDDLE, job)
        job.bed.isolate(1)
        job.until_said(job.bed[2], LEADS_HERE, NEXT + SLACK)
        job.bed.heal()
        job.until_said(job.bed[2], "host1:29400 leads this run, too, and goes on: this one leads no more", 3 + SLACK)
        self.assertEqual(job.until_works(1, seconds=AGAIN), 1)
        self.ends_well(job)

    def test_healed_when_its_rank_is_taken(self):
        job = self.run_in_turn(4, worker=("--on-loss", "hang"))
        self.at(MIDDLE, job)
        job.bed.isolate(1)
        old = job.replace(job.bed[1], job.bed[4])
        self.assertEqual(job.until_works(1, seconds=AGAIN), 1)
        job.bed.heal()
        self.assertEqual(old.wait(10), 69)
        self.assertIn("another launcher has taken this node's rank", job.said(job.bed[1]))
        self.assertEqual(job.until_works(1), 1)
        self.ends_well(job)

    def test_stopped_beyond_l(self):
        """The leader's launcher wakes, and finds another one."""
        job = self.run_in_turn(worker=("--on-loss", "hang"))
        self.at(MIDDLE, job)
        job.bed[1].pause()
        job.until_said(job.bed[3], "the leader waits for node 0|which leads, was silent", NEXT + SLACK)
        job.until_said(job.bed[2], LEADS_HERE, NEXT)
        job.bed[1].wake()
        self.assertEqual(job.until_works(1, seconds=AGAIN), 1)
        self.ends_well(job)


class Order(Endpoints):
    def test_the_last_one_first(self):
        """It leads before the others are there, and goes on to."""
        job = self.job(bed=self.bed(3), endpoint=LIST, start=False)
        bed = job.bed
        job.start(bed[3])
        job.until_said(bed[3], LEADS_HERE, LIMIT + 1 + SLACK)
        for index in (1, 2):
            job.start(bed[index])
        job.until_works()
        self.assertRegex(job.said(bed[1]), r"node 2 \(host3:29400\) leads")
        self.ends_well(job)

    def test_all_start_again_in_another_order(self):
        """The one that leads now knows nothing of the attempts of the one before: the others tell, or its record does."""
        job = self.run_in_turn(worker=("--on-loss", "hang"))
        self.at(MIDDLE, job)
        for index in (1, 2, 3):
            job.agents[job.bed[index]].send_signal(signal.SIGKILL)
            job.agents[job.bed[index]].wait(10)
        for index in (3, 2, 1):
            job.start(job.bed[index])
            time.sleep(0.2)
        self.assertEqual(job.until_works(1, seconds=AGAIN), 1)
        self.ends_well(job)

    def test_nothing_is_slower(self):
        """Where all are there three endpoints are as good as one: of two runs that start at once the one does not wait for a silence."""
        jobs = [self.job(bed=self.bed(3), endpoint=endpoint, start=False, conf=CALM) for endpoint in (LIST, "host1:29400")]
        for index in (1, 2, 3):
            for job in jobs:
                job.start(job.bed[index])
        for job in jobs:
            job.until_works()
        in_turn, alone = (min(w.begun for w in job.witness.of(0)) for job in jobs)
        self.assertLess(in_turn - alone, CALM_LIMIT / 2)
        for job in jobs:
            self.ends_well(job)
            self.assertEqual(job.warnings(), {})

    def test_lists_that_differ(self):
        job = self.job(bed=self.bed(2), endpoint="host1,host2", start=False)
        job.start(job.bed[1])
        job.start(job.bed[2], **{"rdzv-endpoint": "host1,host2,host3"})
        for machine in job.bed:
            job.until_said(machine, "--rdzv-endpoint differs: 'host1:29400,host2:29400,host3:29400' on host2.*'host1:29400,host2:29400' on host1")
        self.assertEqual(job.agents[job.bed[2]].wait(5), 2)


    def test_limits_that_differ(self):
        """Each of them may lead next, and all keep to one limit: who gives none has the default."""
        job = self.job(bed=self.bed(2), endpoint="host1,host2", start=False)
        job.start(job.bed[1])
        job.start(job.bed[2], rdzv_conf=None)
        job.until_said(job.bed[2], "keep_alive_interval x keep_alive_max_attempt differs: 15 s on host2.*2 s on host1")
        self.assertEqual(job.agents[job.bed[2]].wait(5 + 3), 2)


class Strangers(Endpoints):
    """Somebody else is at a place for a while."""

    def stranger(self, machine, job, run_id):
        agent = machine.start(LOCKSTEP, "run", "--nnodes", "2", "--node-rank", "0", "--rdzv-id", run_id, "--rdzv-endpoint", machine.name,
                              "--no-python", "sleep", "100", env=job.environment())
        self.addCleanup(agent.wait, 10)
        self.addCleanup(agent.kill)
        return agent

    def test_a_run_of_the_same_id_at_a_later_place(self):
        """Runs without --rdzv-id have the same one."""
        job = self.job(bed=self.bed(4), machines=(1, 2, 4), endpoint=LIST, start=False)
        self.stranger(job.bed[3], job, "test")
        self.until_listens(job.bed[3])
        job.start(job.bed[4])
        time.sleep(1)
        for index in (1, 2):
            job.start(job.bed[index])
        job.until_works()
        self.ends_well(job)

    def test_a_refusal_that_has_passed(self):
        """Of the job before, at the first place: the node that it refused survives its own leader's loss."""
        job = self.job(bed=self.bed(4), machines=(1, 2, 3), endpoint=LIST, start=False, worker=("--on-loss", "hang"))
        before = self.stranger(job.bed[1], job, "before")
        self.until_listens(job.bed[1])
        job.start(job.bed[3])
        time.sleep(1)
        before.kill()
        before.wait(10)
        for index in (1, 2):
            job.start(job.bed[index])
        job.until_works()
        time.sleep(3)
        self.lose(job, 1, 4)
        self.assertEqual(job.until_works(1, seconds=AGAIN), 1)
        self.ends_well(job)

    def test_a_program_that_goes_late(self):
        """The node that has given up the first place, for that program, sees its leader there."""
        job = self.job(bed=self.bed(3), endpoint=LIST, start=False)
        answers = "import socket\ns = socket.create_server(('', 29400))\nwhile True: s.accept()[0].sendall(b'HTTP/1.0 400 no\\r\\n\\r\\n')"
        program = job.bed[1].start(sys.executable, "-c", answers)
        self.until_listens(job.bed[1])
        job.start(job.bed[3], rdzv_conf=job.conf + ",is_host=false")
        job.until_said(job.bed[3], "goes on trying for 5 s")
        time.sleep(5.5)
        program.kill()
        program.wait(10)
        for index in (1, 2):
            job.start(job.bed[index])
        job.until_works()
        self.ends_well(job)


class End(Endpoints):
    def told_to_one(self, max_restarts):
        """The leader's machine is lost when one of two others has heard of the end, and the other one leads."""
        job = self.run_in_turn(worker=("--linger", "2:told"), options={"max-restarts": max_restarts})
        self.at("end", job)
        last = job.worker_on(job.bed[3])
        self.until_shown(job.bed[1], "host2 .*no workers live")  # the leader has heard of their end
        job.bed.cut([1], [2])
        job.leave()
        job.witness.wait(lambda: last.gone, "the last worker's end")
        self.until_shown(job.bed[3], "on host3: ending")  # before the leader gives host2 up, and all end
        self.assertGreater(job.bed.dropped(), 0)
        job.bed[1].kill()
        job.agents.pop(job.bed[1]).wait(10)
        job.bed.heal()
        begun = time.monotonic()
        job.expect(0, seconds=20)
        self.assertLess(time.monotonic() - begun, 3 * LIMIT + NEXT + SLACK)
        self.assertIn(LEADS_HERE, job.said(job.bed[2]))

    def test_told_to_one(self):
        self.told_to_one(1000)

    def test_told_to_one_without_a_restart(self):
        self.told_to_one(0)


if __name__ == "__main__":
    parallel.main(threads=8)
