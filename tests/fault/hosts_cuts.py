#!/usr/bin/env python3
"""Linked programs on several hosts whose network is cut: machines of namespaces, one exact run. Whoever is taken out ends with 75, all
others have the bits of one host; a cut that is healed in time costs nothing.

    hosts_cuts.py [TEST...]    (environment: harness.py)    Exit 77: skipped, no machines here.
"""
import re
import time
import unittest

from hosts_group import RESUMABLE
from hosts_machines import PORT, GroupOnMachines, missing
from hosts_programs import language_model, wanted
import hosts
from nodes import parallel

# L is 2 s, or 3 s: a link that has heard nothing for so long makes its stream anew; without one for as long again the pair is cut.
QUICK = ("--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=2")
PATIENT = ("--rdzv-conf", "keep_alive_interval=2,keep_alive_max_attempt=3")  # L: 6 s, of which a lost load takes 2
CALM, CALM_LIMIT_S = ("--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=3"), 3.0
TAKEN_OUT = "this node was taken out of the run, which goes on without it"


class Cuts(unittest.TestCase):
    def start(self, *workers, until=20, options=QUICK):
        self.bed = hosts.Bed(len(workers))
        self.addCleanup(self.bed.close)
        self.group = GroupOnMachines(self.bed, self.id(), workers, language_model, options)
        self.addCleanup(self.group.end)
        self.group.start()
        if until:
            self.group.until_committed(until)

    def machines(self, ranks):
        return [rank + 1 for rank in ranks]

    def cut(self, a, b):
        """Between these hosts, by rank."""
        self.bed.cut(self.machines(a), self.machines(b))

    def expect(self, *gone, of=3, cut=True):
        """All end well but these, which are taken out: the first that stays says so."""
        self.group.expect([RESUMABLE if rank in gone else 0 for rank in range(of)])
        if cut:
            self.assertGreater(self.bed.dropped(), 0)
        told = self.group.told()
        teller = next(host.text() for host in self.group.hosts if host.rank not in gone)
        self.assertEqual(len(re.findall(" is lost [(;]", teller)), len(gone), told)
        for rank in gone:
            self.assertRegex(teller, f"node {rank} is lost [(;]", told)
        self.group.expect_exact([rank for rank in range(of) if rank not in gone], wanted(language_model))

    def said_by(self, rank, what):
        self.assertIn(what, self.group.hosts[rank].text(), self.group.told())

    def test_of_a_pair_the_later_one_goes(self):
        self.start(2, 1, 1)
        self.cut([1], [2])
        self.expect(2)
        self.said_by(0, "node 2 is lost (its link and that of node 1 cannot reach each other)")
        self.said_by(2, TAKEN_OUT)

    def test_of_a_pair_of_four_the_later_one_goes(self):
        self.start(1, 1, 1, 1)
        self.cut([1], [3])
        self.expect(3, of=4)
        self.said_by(3, TAKEN_OUT)

    def test_whoever_reaches_fewer_goes(self):
        self.start(1, 1, 1, 1, options=CALM)  # both are known within L / 2
        self.cut([1], [2, 3])
        self.expect(1, of=4)
        self.said_by(1, TAKEN_OUT)

    def test_one_way(self):
        self.start(1, 1, 1)
        self.bed.cut_one_way(self.machines([1]), self.machines([2]))
        self.expect(2)
        self.said_by(2, TAKEN_OUT)

    def test_links_alone(self):
        """What agents say to each other gets through. The leader's host stays."""
        self.start(1, 1, 1)
        leader, other = self.bed[1].v4, self.bed[2].v4
        self.bed.rules(f"ip saddr {leader} ip daddr {other} tcp sport != {PORT} counter drop",
                       f"ip saddr {other} ip daddr {leader} tcp dport != {PORT} counter drop")
        self.expect(1, cut=False)
        self.said_by(0, "node 1 is lost (its link and that of node 0 cannot reach each other)")
        self.said_by(1, TAKEN_OUT)

    def test_a_pair_that_never_works(self):
        """Its links are never there for each other: a firewall, say."""
        self.start(1, 1, 1, until=0)
        self.cut([1], [2])
        self.expect(2)
        self.said_by(2, TAKEN_OUT)

    def lose(self, *ranks, above):
        """Of these hosts' packets, those of more bytes vanish on the way to any other host, without a word to who sent them."""
        for rank in ranks:  # of a burst that goes in one piece no packet has its own length
            self.bed[rank + 1].space.ip("link set eth0 gso_max_segs 1")
        self.bed.rules(*(f"iifname p{rank + 1} meta length > {above} counter drop" for rank in ranks))

    def expect_small_packets(self):
        self.expect(cut=False)
        told = "".join(host.text() for host in self.group.hosts)
        self.assertRegex(told, "link: node [01] .*: small packets pass, large ones vanish .*one MTU", self.group.told())

    def test_large_packets_vanish_from_the_start(self):
        self.start(1, 1, 1, until=0, options=PATIENT)
        self.lose(0, 1, 2, above=1000)
        self.expect_small_packets()

    def test_large_packets_vanish_later_and_one_way(self):
        """To who dials, and from it."""
        for rank in (0, 1):
            with self.subTest(rank):
                self.start(1, 1, options=PATIENT)
                self.lose(rank, above=1000)
                self.group.expect([0, 0])
                self.group.expect_exact([0, 1], wanted(language_model))

    def test_who_gets_almost_nothing_through_goes(self):
        """Hellos pass, and what agents say; no data does."""
        self.start(1, 1, 1)
        leader, other = self.bed[1].v4, self.bed[2].v4
        for rank in (0, 1):
            self.bed[rank + 1].space.ip("link set eth0 gso_max_segs 1")
        self.bed.rules(*(f"ip saddr {a} ip daddr {b} tcp {port} != {PORT} meta length > 400 counter drop"
                         for a, b, port in ((leader, other, "sport"), (other, leader, "dport"))))
        self.expect(1, cut=False)
        self.said_by(1, TAKEN_OUT)

    def test_one_host_for_good(self):
        self.start(1, 1, 1)
        self.cut([1], [0, 2])
        self.expect(1)
        self.said_by(1, "the launcher that leads has not been heard")

    def test_the_leaders_host_for_good(self):
        """The others elect one of theirs; it, the first of the set, is no half of three."""
        self.start(1, 1, 1)
        self.cut([0], [1, 2])
        self.expect(0)
        self.assertRegex(self.group.told(), r"node [12] leads the run from now on|this node leads the run from now on")

    def test_the_leaders_host_healed_too_late(self):
        self.start(1, 2, 1)
        self.cut([0], [1, 2])
        self.group.until_lost(0)
        self.bed.heal()
        self.expect(0, cut=False)
        self.said_by(0, TAKEN_OUT)

    def test_one_host_healed_too_late(self):
        self.start(1, 1, 1)
        self.cut([1], [0, 2])
        self.group.until_said(0, "node 1 is lost", may_end=True)
        self.bed.heal()
        self.expect(1, cut=False)
        self.said_by(1, TAKEN_OUT)

    def test_a_pair_healed_too_late(self):
        self.start(1, 1, 1)
        self.cut([1], [2])
        self.group.until_said(0, "node 2 is lost", may_end=True)
        self.bed.heal()
        self.expect(2, cut=False)
        self.said_by(2, TAKEN_OUT)

    def test_halves(self):
        """That with the first goes on."""
        self.start(1, 2, 1, 1)
        self.cut([0, 1], [2, 3])
        self.expect(2, 3, of=4)
        self.said_by(2, "the launcher that leads has not been heard")

    def test_halves_one_way_healed_too_late(self):
        self.start(1, 2, 1, 1)
        self.bed.cut_one_way(self.machines([2, 3]), self.machines([0, 1]))
        for rank in (2, 3):
            self.group.until_said(0, f"node {rank} is lost", may_end=True)
        self.bed.heal()
        self.expect(2, 3, of=4, cut=False)

    def test_nobody_goes_where_cuts_are_healed_in_time(self):
        self.start(2, 1, 1, options=CALM)
        for way in (self.bed.cut, self.bed.cut_one_way):
            for seconds in (0.5 * CALM_LIMIT_S, 1.2 * CALM_LIMIT_S):
                done = self.group.hosts[0].committed()
                self.group.until(lambda: self.group.hosts[0].committed() > done + 3, "more steps")
                way(self.machines([1]), self.machines([2]))
                time.sleep(seconds)
                self.assertGreater(self.bed.dropped(), 0)
                self.bed.heal()
        for a, b in (([1], [0, 2]), ([0], [1, 2]), ([0, 1], [2])):
            done = self.group.hosts[0].committed()
            self.group.until(lambda: self.group.hosts[0].committed() > done + 3, "more steps")
            self.cut(a, b)
            time.sleep(0.4 * CALM_LIMIT_S)
            self.assertGreater(self.bed.dropped(), 0)
            self.bed.heal()
        self.expect(cut=False)


if __name__ == "__main__":
    parallel.main(threads=3)
