"""Runs of the example `ring` over three launchers of this machine, beside the same on one host."""
import re
import signal
import subprocess
import unittest

from harness import LOCKSTEP, built, environment
from hosts_group import Group, send


def kill(pid):
    return send(pid, signal.SIGKILL)


class HostsRuns(unittest.TestCase):
    WORKERS = (2, 1, 2)
    references = {}  # by epochs: SHA-256 of the weights, and ledger, of one host

    def setUp(self):
        self.options, self.epochs = (), 5

    def ring(self, output, more=()):
        return [built("ring"), "--epochs", str(self.epochs), "--virtual-workers", "6", *more, "--output", str(output)]

    def make_group(self):
        self.group = Group(self.id(), self.WORKERS, self.ring, self.options)
        self.addCleanup(self.group.end)

    @property
    def nodes(self):
        return self.group.hosts

    def start(self, *, other=None, options=None):
        """`other`: the words that the last host's program has beside; `options`: the launchers', by rank."""
        if not hasattr(self, "group"):
            self.make_group()
        for node in self.nodes:
            is_other = other is not None and node is self.nodes[-1]
            node.start((options or {}).get(node.rank, ()), (lambda output: self.ring(output, other)) if is_other else None)

    def wait_for_steps(self, steps):
        self.group.until(lambda: min(node.committed() for node in self.nodes) >= steps, f"{steps} transactions on all hosts")

    def told(self):
        return self.group.told()

    def ends(self):
        return self.group.codes()

    def weights(self, text):
        found = re.findall(r"weights sha256 (\w+)", text)
        self.assertTrue(found, text)
        return found[-1]

    def one_host(self):
        if self.epochs not in self.references:
            output = self.group.folder / "one"
            out = subprocess.run([LOCKSTEP, "run", "--standalone", "--nproc-per-node", "3", *self.ring(output)], capture_output=True,
                                 text=True, timeout=Group.LIMIT_S, env=environment())
            self.assertEqual(out.returncode, 0, out.stderr)
            self.references[self.epochs] = (self.weights(out.stdout), (output / "ledger.jsonl").read_bytes())
        return self.references[self.epochs]

    def expect_exact(self, ranks):
        weights, ledger = self.one_host()
        for rank in ranks:
            node = self.nodes[rank]
            self.assertEqual(self.weights(node.text()), weights, self.told())
            self.assertEqual((node.output / "ledger.jsonl").read_bytes(), ledger, f"the ledger of node {rank}")
        self.nothing_is_left()

    def nothing_is_left(self):
        self.group.check_nothing_is_left()
