"""Faults at random in linked programs over several hosts, by seed, for a while: machines of namespaces.

    chaos --linked --hosts 3,4 [--workers W] [--seed S] [--minutes M] [--jobs J] [--life K] [--only WORD]    (environment: harness.py)

A *life* is one run, from its beginning to its end: as many hosts as are drawn, each with one to W workers, and faults that are drawn,
too, one or two at a time. Workers and newcomers are killed and paused; links killed and stopped; hosts killed whole, with or without
a word from their kernel; launchers and hosts paused; the network cut between two hosts, around one, in halves, one way. Some last for so
long that a host is taken out, others must cost none. Whoever leads may go as well, alone; a quorum of those that are there stays. All of a
run is killed or stopped, too, and goes on by the same command, with all hosts. In the end
weights, state, ledger and metrics of all that stay are those of an undisturbed run on one host, whoever was taken out has ended with 75,
nobody else was, and nothing is left behind. A kind of fault counts once it is seen to have happened; a run in which one of them has not,
within twice its time, fails. The moments are the machine's, and the rarest kinds come first: a seed gives the same programs and hosts,
not the same run; --life K lives that one alone, again and again. By hand, for half an hour: chaos --linked --hosts 2,3,4 --minutes 30
"""
import collections
import functools
import random
import signal
import sys
import time
import traceback

import harness
import hosts_machines
from chaos_cuts import BRIEF_S, LIMIT_S, Cuts
from chaos_lives import play, rarest_first
from hosts_group import RESUMABLE, is_stopped, send
from hosts_programs import convnet, language_model, unused, updates, wanted
import hosts

TERMINATED, KILLED = 143, -signal.SIGKILL
OPTIONS = ("--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=2", "--max-replacements", 999, "--max-restarts", 9, "--stop-grace", 0.3)
PROGRAMS = {convnet: 8, language_model: 8, updates: 4, unused: 4}  # virtual workers: the most that there may be
DATA = "/srv/data"  # in the machines


class Life(Cuts):
    def __init__(self, seed, number, counts, workers, seen, only=""):
        self.dice = random.Random(f"{seed} {number}")
        self.seen = seen  # faults of all lives before
        self.program = self.dice.choice([program for program in PROGRAMS if only in program.__name__])
        self.workers = [1] * self.dice.choice(counts)
        for _ in range(self.dice.randint(0, PROGRAMS[self.program] - len(self.workers))):
            at = self.dice.randrange(len(self.workers))
            self.workers[at] = min(self.workers[at] + 1, workers)
        self.begun, self.fired, self.told = collections.Counter(), collections.Counter(), []
        self.killed, self.may_go = set(), set()  # ranks; whom a fault kills, and whom it may take out

    def live(self):
        self.reference = wanted(self.program)
        program = functools.partial(convnet, data=DATA) if self.program is convnet else self.program
        with hosts.Bed(len(self.workers)) as self.bed:
            if self.program is convnet:
                harness.write_idx(self.bed.folder / "data", *harness.MANY)
            self.group = hosts_machines.GroupOnMachines(self.bed, "chaos", self.workers, program, OPTIONS)
            try:
                self.group.start()
                self.group.until_said(0, "nodes are here")
                for _ in range(self.dice.randint(3, 9)):
                    self.disturb()
                self.check()
            finally:
                self.group.end()
        return self.fired

    def over(self):
        return all(host.process.poll() is not None for host in self.alive())

    def committed(self):
        return max(host.committed() for host in self.alive())

    def leader(self):
        """As far as is said."""
        elected = [host for host in self.group.hosts if "this node leads the run from now on" in host.text()]
        return next((host for host in reversed(elected) if host in self.alive()), self.alive()[0])

    def until(self, condition, what, seconds=60):
        """Or the run has ended. Whether it is so."""
        self.group.until(lambda: condition() or self.over(), what, seconds, may_end=True)
        return bool(condition())

    # One fault, or two at once, then what they come to
    def disturb(self):
        at = self.committed() + self.dice.choice((0, self.dice.randint(1, 12)))
        self.until(lambda: self.committed() >= at, f"{at} transactions")
        time.sleep(self.dice.uniform(0, 0.05))
        self.there, self.gone, self.cuts, self.under_way = self.alive(), set(), 0, []
        for _ in range(self.dice.choice((1, 1, 2))):
            if fault := self.begin():
                self.under_way.append(fault)
                time.sleep(self.dice.choice((0, self.dice.uniform(0, 0.3))))
        for kind, ends in self.under_way:
            if ends():
                self.fired[kind] += 1
                self.say(f"it has happened: {kind}")

    def begin(self):
        """The rarest kind so far that can be now."""
        for kind in rarest_first(self.dice, KINDS, self.seen + self.begun):
            if not self.over() and (ends := getattr(self, f"do_{kind}")()):
                self.begun[kind] += 1
                return kind, ends
        return None

    def say(self, what):
        self.told.append(f"{self.committed():4} transactions: {what}")

    def alive(self):
        return [host for host in self.group.hosts if host.rank not in self.killed | self.may_go]

    def may_lose(self, host):
        """Whether the others are a quorum of those that were there, the first of which is the lowest. Who leads goes alone: whom it has
        told of a loss just then nobody knows."""
        if host.rank == 0 and "replacements of those" not in host.text():
            return False  # without the first one no run begins
        gone = self.gone | {host}
        left = [other for other in self.there if other not in gone]
        is_quorum = 2 * len(left) > len(self.there) or (2 * len(left) == len(self.there) and left[:1] == self.there[:1])
        return is_quorum and (len(gone) == 1 or self.leader() not in gone)

    def victim(self, kills):
        """A host that may be lost now; None: there is none."""
        some = [host for host in self.alive() if self.may_lose(host)]
        if not some:
            return None
        host = self.dice.choice(some)
        self.gone.add(host)
        (self.killed if kills else self.may_go).add(host.rank)
        return host

    def lost(self, how_many, hosts):
        """any or all of them."""
        ranks = [host.rank for host in hosts]
        return self.until(lambda: how_many(map(self.group.is_lost, ranks)), f"the loss of {how_many.__name__} of {ranks}")

    # Faults. Each begins one, a short one ends it as well, and gives what sees the end, and says whether it has happened; None: it
    # cannot be now.
    def killing(self, how, what):
        host = self.victim(kills=True)
        if host is None:
            return None
        self.say(f"{what} of host {host.rank}")
        how(host)
        return lambda: self.lost(all, [host])

    def do_kill_host(self):
        return self.killing(lambda host: host.kill(), "death")

    def do_kill_launcher(self):
        return self.killing(lambda host: host.process.send_signal(signal.SIGKILL), "death of the launcher")

    def do_power_failure(self):
        return self.killing(lambda host: host.machine.kill(), "power failure")

    def pausing(self, stop, wake, what):
        host = self.victim(kills=False)
        if host is None:
            return None
        self.say(f"pause of {what} {host.rank}")
        stop(host)

        def ends():
            happened = self.lost(all, [host])
            time.sleep(self.dice.choice((0, self.dice.uniform(0, 2 * LIMIT_S))))
            wake(host)
            return happened
        return ends

    def do_pause_launcher(self):
        return self.pausing(lambda host: host.process.send_signal(signal.SIGSTOP), lambda host: host.process.send_signal(signal.SIGCONT), "launcher")

    def do_pause_host(self):
        return self.pausing(lambda host: host.machine.pause(), lambda host: host.machine.wake(), "host")

    def do_pause_briefly(self):
        host = self.dice.choice(self.alive())
        self.say(f"host {host.rank} is paused briefly")
        host.machine.pause()
        stopped = all(is_stopped(pid) for pid in host.pids())
        time.sleep(self.dice.uniform(*BRIEF_S))
        host.machine.wake()
        return lambda: stopped

    def link_fault(self, number):
        host = self.dice.choice(self.alive())
        said, link = host.text().count("another one takes its place"), host.link()
        if link is None or not send(link, number):
            return None
        self.say(f"{number.name} for the link of host {host.rank}")
        return lambda: self.until(lambda: host.text().count("another one takes its place") > said, "another link")

    def do_kill_link(self):
        return self.link_fault(signal.SIGKILL)

    def do_stop_link(self):
        return self.link_fault(signal.SIGSTOP)

    # All of the run; then the same command
    def again(self, happened):
        for host in self.group.hosts:
            if not host.machine.space:
                host.machine.boot()
        self.killed, self.may_go = set(), set()
        self.group.start_again()
        self.group.until_said(0, "nodes are here", may_end=True)
        self.there = self.alive()
        return lambda: happened

    def do_kill_everything(self):
        if self.under_way:
            return None
        self.say("death of everything, and the same command again")
        alive = self.alive()
        for host in self.group.hosts:
            if host.machine.space:
                host.kill()
        codes = self.group.codes()
        return self.again(any(codes[host.rank] == KILLED for host in alive))

    def do_terminate(self):
        if self.under_way:
            return None
        host = self.dice.choice(self.alive())
        self.say(f"SIGTERM for the launcher of host {host.rank}, and the same command again")
        host.process.send_signal(signal.SIGTERM)
        return self.again(TERMINATED in self.expect_codes(0, TERMINATED))  # 0: it had ended

    # Workers: of hosts that have others
    def workers_of(self, least=2):
        """Of some host with so many, in no order."""
        for host in self.dice.sample(alive := self.alive(), len(alive)):
            if len(pids := host.worker_pids()) >= least:
                return host, self.dice.sample(pids, len(pids))
        return None, []

    def do_kill_worker(self):
        host, pids = self.workers_of()
        if not pids or not send(pids[0], signal.SIGKILL):
            return None
        self.say(f"death of a worker of host {host.rank}")
        return lambda: True

    def do_kill_newcomer(self):
        host, pids = self.workers_of()
        before = host.children() if pids else set()
        if not pids or not send(pids[0], signal.SIGKILL):
            return None
        self.say(f"death of a worker of host {host.rank}, and of who comes for it")
        end = time.monotonic() + 2
        while not (found := host.children() - before) and time.monotonic() < end and not self.over():
            time.sleep(0.001)
        time.sleep(self.dice.uniform(0, 0.05))  # soon it is a member
        happened = any([send(pid, signal.SIGKILL) for pid in found])
        return lambda: happened

    def do_kill_only_worker(self):
        """The others go on without its host, until it has another one."""
        for host in self.alive() if len(self.alive()) > 1 else ():
            before = self.times_without(host)
            if len(pids := host.worker_pids()) == 1 and send(pids[0], signal.SIGKILL):
                self.say(f"death of the only worker of host {host.rank}")
                return lambda: self.until(lambda: self.times_without(host) > before, "its host out of the tables")
        return None

    def times_without(self, host):
        return sum(other.text().count(f"node {host.rank} has no worker left") for other in self.group.hosts)

    def pause_worker(self, seconds):
        host, pids = self.workers_of()
        if not pids or not send(pids[0], signal.SIGSTOP):
            return None
        self.say(f"a worker of host {host.rank} is paused for {seconds:.2f} s")
        time.sleep(seconds)
        happened = send(pids[0], signal.SIGCONT) or seconds > 0.3
        return lambda: happened

    def do_pause_worker(self):
        return self.pause_worker(self.dice.uniform(0.01, 0.2))

    def do_pause_worker_beyond_the_grace(self):
        return self.pause_worker(self.dice.uniform(0.4, 0.8))

    # Afterwards
    def expect_codes(self, *of_all):
        codes = self.group.codes()
        for host, code in zip(self.group.hosts, codes):
            if self.group.is_lost(host.rank) and host.rank not in self.killed | self.may_go:
                self.group.fail(f"host {host.rank} was taken out, and nothing had happened to it for long enough")
            allowed = {*of_all}  # who is taken out when it has come to the run's end may have the result, too
            if host.rank in self.killed | self.may_go:
                allowed.add(KILLED if host.rank in self.killed else RESUMABLE)
            if code not in allowed:
                self.group.fail(f"host {host.rank} ended with {code}, not {allowed}")
        return codes

    def check(self):
        codes, exact = self.expect_codes(0), 0
        for host, code in zip(self.group.hosts, codes):
            if code == 0 and not self.group.ended_without(host.rank):
                self.group.expect_exact([host.rank], self.reference)
                exact += 1
        if not exact:
            self.group.fail("no host has the result")
        self.group.check_nothing_is_left()


KINDS = [name[3:] for name in dir(Life) if name.startswith("do_")]


def live(given, number, seen):
    """The faults that happened; None: it has failed."""
    life, begun = Life(given.seed, number, given.counts, given.workers, seen, given.only), time.monotonic()
    what = f"life {number}: {life.program.__name__} on {'+'.join(map(str, life.workers))}"
    try:
        life.live()
    except Exception as error:
        said = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
        again = f"chaos --linked --hosts {given.hosts} --workers {given.workers} --seed {given.seed} --life {number}"
        print(f"FAILED: {again}: {what}\n" + "\n".join(life.told) + f"\n{said}", flush=True)
        return None
    print(f"{what}, {time.monotonic() - begun:.1f} s: {dict(life.fired)}", flush=True)
    return life.fired


def main(given):
    """True: all is well."""
    if reason := hosts_machines.missing():
        print(f"skipped: {reason}")
        sys.exit(77)
    given.counts = [int(word) for word in given.hosts.split(",")]
    print(f"seed {given.seed}", flush=True)
    harness.write_idx(harness.scratch() / "hosts", *harness.MANY)
    for program in PROGRAMS:
        wanted(program)
    return play(given, KINDS if not given.only else [], functools.partial(live, given))
