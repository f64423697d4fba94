#!/usr/bin/env python3
"""Launchers of a linked program meet at an endpoint where nobody can lead yet: machines of namespaces.

    hosts_meet.py [TEST...]    (environment: harness.py)    Exit 77: skipped, no machines here.
"""
import subprocess
import sys
import time
import unittest

from harness import built
from hosts_machines import PORT, GroupOnMachines
import hosts
from nodes import parallel

USAGE = 2
# Connects from the endpoint's port, and stays: another program's outgoing connection.
HOLDER = f"""#!{sys.executable} -SE
import socket, time
server = socket.create_server(("127.0.0.1", 0))
client = socket.socket()
client.bind(("127.0.0.1", {PORT}))
client.connect(server.getsockname())
client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1] + 7 * [0]))
print("held", flush=True)
time.sleep(600)
"""


class Meet(unittest.TestCase):
    def setUp(self):
        self.bed = hosts.Bed(2, names="none")
        self.addCleanup(self.bed.close)
        self.group = GroupOnMachines(self.bed, self.id(), (1, 1), self.ring)
        self.addCleanup(self.group.end)
        self.hosts = self.group.hosts

    @staticmethod
    def ring(output):
        return [built("ring"), "--epochs", "1", "--virtual-workers", "2", "--output", str(output)]

    def test_its_own_name_is_known_later(self):
        """As that of a pod, which is known once the pod is ready."""
        self.group.endpoint = f"train-0:{PORT}"
        self.group.start()
        time.sleep(2.5)  # it was looked for at the start, for 1 s
        self.bed.name("10.77.0.1 train-0\n")
        self.group.expect([0, 0])

    def test_the_port_is_another_programs_at_first(self):
        self.bed.program("holder", HOLDER)
        holder = self.bed[1].start("/srv/holder", stdout=subprocess.PIPE, text=True)
        self.assertEqual(holder.stdout.readline(), "held\n")
        self.group.start()
        self.group.until_said(0, r"this launcher cannot lead there: .*/srv/holder.*; give the endpoint another port.*it is tried again")
        holder.kill()
        holder.wait()
        self.group.expect([0, 0])

    def test_a_port_that_its_user_may_not_have(self):
        self.group.endpoint = "10.77.0.1:80"
        self.bed.program("as_user", '#!/bin/sh\nexec setpriv --bounding-set=-net_bind_service "$@"\n')
        first = self.hosts[0]
        begin = first.begin
        first.begin = lambda words, log: begin(["/srv/as_user", *words], log)
        first.start()
        self.assertEqual(first.process.wait(60), USAGE, first.text())
        self.assertIn("the endpoint: cannot listen on port 80: Permission denied", first.text())


if __name__ == "__main__":
    parallel.main(threads=3)
