"""One of three launchers of a linked program is not like the others: who differs in what is told on all of them, before any step.

    environment: harness.py; LOCKSTEP_WRONG_TORCH, LOCKSTEP_NFS_LOCKS: the libraries of wrong_torch.cpp and nfs_locks.cpp
"""
import os
import pathlib
import re
import shutil
import unittest

import harness
from harness import built
from hosts_group import Group

VERSION = (pathlib.Path(__file__).resolve().parents[2] / "VERSION").read_text().split()[0]


class UnlikeTest(unittest.TestCase):
    def group(self, program=None, options=()):
        group = Group(self.id(), (1, 1, 1), program or self.ring(), options)
        self.addCleanup(group.end)
        return group

    def ring(self, *more):
        return lambda output: [built("ring"), "--epochs", 3, "--virtual-workers", 6, *more, "--output", output]

    def refused(self, says, *, program=None, environment=None, all_run=None):
        """Whoever is compared first is one of two."""
        group = self.group(all_run)
        group.hosts[2].environment = environment or {}
        for host in group.hosts:
            host.start(program=program if host.rank == 2 else None)
        self.assertEqual(group.codes(), [2, 2, 2], group.told())
        for host in group.hosts:
            self.assertRegex(host.text(), says)
            self.assertEqual(host.committed(), 0, group.told())
        group.check_nothing_is_left()

    def differs(self, name, others, its_own, remedy, **more):
        node = "node [01] has {0}, node 2 {1}|node 2 has {1}, node [01] {0}"
        self.refused(f"{name}: ({node.format(others, its_own)})\\. .*{remedy}", **more)

    def test_the_cpu(self):
        self.differs("cpu_capability", "'(AVX.*|VSX|SVE.*)'", "'DEFAULT'", "ATEN_CPU_CAPABILITY", environment={"ATEN_CPU_CAPABILITY": "default"})

    def test_threads(self):
        self.differs("threads", "'1'", "'2'", "OMP_NUM_THREADS", environment={"OMP_NUM_THREADS": "2"})

    def test_options(self):
        self.differs("seed", "'0'", "'4'", "the same program and options", program=self.ring("--seed", 4))
        self.differs("batch_size", "'100'", "'50'", "the same program and options", program=self.ring("--batch-size", 50))

    def test_virtual_workers(self):
        self.differs("virtual workers", "6", "12", "the same program and options", program=self.ring("--virtual-workers", 12))

    def test_length(self):
        self.differs("steps and epochs' ends of the whole run.*", "300", "400", "the same program and options", program=self.ring("--epochs", 4))

    def test_data(self):
        other = shutil.copytree(harness.scratch() / "short", harness.scratch() / "unlike")
        self.addCleanup(shutil.rmtree, other)
        labels = other / "train-labels-idx1-ubyte"
        raw = bytearray(labels.read_bytes())
        raw[-2] = (raw[-2] + 1) % 10
        labels.write_bytes(raw)
        def convnet(data):
            return lambda output: list(map(str, [harness.CONVNET, *harness.merged(harness.BASE, ("--data", data, "--epochs", 2, "--output", output))]))
        self.differs("dataset_fingerprint", "'.*'", "'.*'", "all samples, in the same order", program=convnet(other),
                     all_run=convnet(harness.scratch() / "short"))

    def test_libtorch(self):
        """The program does not begin with one that it was not built for; its own launcher has both versions."""
        self.refused("node 2: the program ended with exit 2 before lockstep::init\\(\\); what it says there tells why",
                     environment={"LD_PRELOAD": os.environ["LOCKSTEP_WRONG_TORCH"]})

    def test_another_libtorch(self):
        """Built with that one, too."""
        ring = pathlib.Path(built("ring")).read_bytes()
        versions = set(re.findall(rb"\0(2\.\d\d\.\d)\0", ring))
        self.assertEqual(len(versions), 1)
        here = versions.pop().decode()
        other = harness.scratch() / "ring-of-another-libtorch"
        other.write_bytes(ring.replace(f"\0{here}\0".encode(), b"\0" + b"2.99.9\0"))
        other.chmod(0o755)
        self.addCleanup(other.unlink)
        self.differs("torch", f"'{here}'", "'2.99.9'", "Start all with the same libtorch", program=lambda output: [other, *self.ring()(output)[1:]])

    def test_another_build(self):
        """Nothing that is compared before the first step tells of it."""
        def built_so(case):
            return lambda output: [built("unseen_worker"), case, output]
        self.refused("another build of the program", all_run=built_so("right"), program=built_so("other-build"))

    def one_directory(self, **environment):
        """Of two nodes, as in a shared home."""
        group = self.group()
        _, second, third = group.hosts
        third.output = second.output
        for host in group.hosts:
            host.environment = environment
        group.start()
        self.assertEqual(group.codes(), [2, 2, 2], group.told())
        says = f"the run directory '{second.output}' of node ([12]) is also that of node ([12]) \\(.*\\): " \
               f"give each node its own, as --output '{second.output}/node-\\1' on this one"
        for host in group.hosts:
            self.assertRegex(host.text(), says)
            self.assertEqual(host.committed(), 0, group.told())
        group.check_nothing_is_left()

    def test_one_directory_of_two_nodes(self):
        self.one_directory()

    def test_one_directory_where_locks_are_each_machines_own(self):
        self.one_directory(LD_PRELOAD=os.environ["LOCKSTEP_NFS_LOCKS"], LOCKSTEP_TEST_LOCKS="local")

    def test_one_directory_where_there_are_no_locks(self):
        self.one_directory(LD_PRELOAD=os.environ["LOCKSTEP_NFS_LOCKS"])

    def test_directories_without_locks(self):
        group = self.group()
        for host in group.hosts:
            host.environment = {"LD_PRELOAD": os.environ["LOCKSTEP_NFS_LOCKS"]}
        group.start()
        self.assertEqual(group.codes(), [0, 0, 0], group.told())
        for host in group.hosts:
            self.assertIn(f"the file system of the run directory '{host.output}' has no locks (Bad file descriptor)", host.text())
        group.check_nothing_is_left()

    def test_lockstep(self):
        group = self.group()
        folder = group.folder / "other"
        folder.mkdir()
        for path in pathlib.Path(harness.LOCKSTEP).parent.glob("lockstep*"):
            (folder / path.name).write_bytes(path.read_bytes().replace(VERSION[:4].encode(), b"9.9."))
            (folder / path.name).chmod(0o755)
        group.hosts[2].launcher = folder / "lockstep"
        group.start()
        group.hosts[2].process.wait(30)
        self.assertEqual(group.hosts[2].process.returncode, 2, group.told())
        for rank in (0, 2):
            group.until_said(rank, f"the version of Lockstep differs: 9\\.9\\.{VERSION[4:]} \\(.*\\) on .*, {VERSION} \\(.*\\) on .*; "
                                   "install the same one on all machines", may_end=True)
        self.assertEqual(group.hosts[0].text().count("not let in: "), 1, group.told())
        group.hosts[2].launcher = harness.LOCKSTEP
        group.hosts[2].start()
        self.assertEqual(group.codes(), [0, 0, 0], group.told())
        group.check_nothing_is_left()

    def test_a_program_that_does_not_link_lockstep(self):
        group = self.group()
        for host in group.hosts:
            host.start(program=(lambda output: ["/bin/true"]) if host.rank == 2 else None)
        group.hosts[2].process.wait(30)
        self.assertEqual(group.hosts[2].process.returncode, 2, group.told())
        for rank in (0, 2):
            group.until_said(rank, "the program differs: it does not link Lockstep on .*, it links Lockstep on .*; give the same", may_end=True)

    def test_l_is_the_leaders_where_it_is_left_out(self):
        group = self.group()
        group.start({0: ("--rdzv-conf", "keep_alive_interval=5,keep_alive_max_attempt=2"),
                     2: ("--rdzv-conf", "keep_alive_interval=2,keep_alive_max_attempt=2")})
        group.hosts[2].process.wait(30)
        self.assertEqual(group.hosts[2].process.returncode, 2, group.told())
        group.until_said(2, "keep_alive_max_attempt differs: 4 s on .*, 10 s on .*, whose launcher leads; give the same on all nodes", may_end=True)
        group.hosts[2].start()
        self.assertEqual(group.codes(), [0, 0, 0], group.told())
        group.check_nothing_is_left()

    def test_a_launchers_options(self):
        """Whoever is refused may come again; the others wait for it."""
        group = self.group()
        group.start({2: ("--max-restarts", "7")})
        group.hosts[2].process.wait(30)
        self.assertEqual(group.hosts[2].process.returncode, 2, group.told())
        for rank in (0, 2):
            group.until_said(rank, "--max-restarts differs: 7 on .*, 0 on .*; give the same on all nodes", may_end=True)
        group.hosts[2].start()
        self.assertEqual(group.codes(), [0, 0, 0], group.told())
        group.check_nothing_is_left()


if __name__ == "__main__":
    unittest.main(verbosity=2)
