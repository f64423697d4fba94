#!/usr/bin/env python3
"""A linked program on several hosts of which one has a slow network: machines of namespaces, one exact run.

    hosts_slow.py [TEST...]    (environment: harness.py)    Exit 77: skipped, no machines here.
"""
import unittest

from hosts_machines import GroupOnMachines
from hosts_programs import large, wanted
import hosts
from nodes import parallel

STATE = 40_000_000  # bytes


class Slow(unittest.TestCase):
    def test_a_host_comes_back(self):
        """At 100 Mbit/s its copy of the state takes more than 3 s: the others wait for so long."""
        bed = hosts.Bed(3)
        self.addCleanup(bed.close)
        group = GroupOnMachines(bed, self.id(), (1, 1, 1), large, ("--max-replacements", 99))
        self.addCleanup(group.end)
        bed[3].rate("100mbit")
        group.start()
        group.until_committed(10)
        last = group.hosts[2]
        before = bed[3].bytes()[1]
        group.kill(last.all_workers())
        group.until_said(0, "node 2 has no worker left")
        group.until(lambda: last.all_workers(), "a worker of the last host")
        self.assertGreater(bed[3].bytes()[1] - before, STATE)
        group.expect([0, 0, 0])
        self.assertFalse(group.ended_without(2), group.told())
        group.expect_exact([0, 1, 2], wanted(large))


if __name__ == "__main__":
    parallel.main()
