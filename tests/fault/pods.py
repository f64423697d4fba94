#!/usr/bin/env python3
"""What a cluster of pods does to a run on several nodes: names that are known late, lead elsewhere, or are not the machine's; pods that
come back under their name with another address. The files of docs/guide/many_nodes.md, played on machines of namespaces.

Exit 77: skipped, where the system does not have what they need.
"""
import contextlib
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import hosts  # noqa: E402

LOCKSTEP = os.path.realpath(os.environ["LOCKSTEP_PROGRAM"])
KEY = "3b1f0c9d" * 8
# As the operator of a PyTorchJob says it; and the silence that makes a lost node, which here is to cost little.
JOB = {"PET_RDZV_ENDPOINT": "train-0.train:23456", "PET_RDZV_ID": "train", "PET_RDZV_BACKEND": "c10d", "PET_MASTER_ADDR": "train-0",
       "PET_MASTER_PORT": "23456", "PET_NPROC_PER_NODE": "2", "PET_MAX_RESTARTS": "1",
       "PET_RDZV_CONF": "keep_alive_interval=1,keep_alive_max_attempt=3,join_timeout=60", "LOCKSTEP_RUN_KEY": KEY}
# Says who it is, and ends well once it is told to.
WORKER = """#!/bin/sh
echo "rank $RANK of $WORLD_SIZE, attempt $TORCHELASTIC_RESTART_COUNT" >>/srv/said
while [ ! -e /srv/end ]; do sleep 0.05; done
"""
# The same in Python, as the guide's files start it.
SCRIPT = """import os, time
open("/srv/said", "a").write("rank {RANK} of {WORLD_SIZE}, attempt {TORCHELASTIC_RESTART_COUNT}\\n".format(**os.environ))
while not os.path.exists("/srv/end"):
    time.sleep(0.05)
"""


def words_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1] or [b""]
    return [b""]


def children_of(pid):
    with contextlib.suppress(OSError):
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def heeds_term(pid):
    """It blocks TERM, to read it, or has a handler for it."""
    with contextlib.suppress(OSError):
        masks = re.findall(r"Sig(?:Blk|Cgt):\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text())
        return any(int(mask, 16) >> (signal.SIGTERM - 1) & 1 for mask in masks)
    return False


class Pods(unittest.TestCase):
    def cluster(self, count, names="right"):
        self.bed = hosts.Bed(count, names=names)
        self.addCleanup(self.bed.close)
        self.count, self.pods = count, {}
        wrapper = f'#!/bin/sh\nexec {shlex.quote(LOCKSTEP)} "$@"\n'
        for name, text in (("train", WORKER), ("train.py", SCRIPT), ("lockstep", wrapper)):
            (self.bed.folder / name).write_text(text)
            (self.bed.folder / name).chmod(0o755)

    def start(self, ordinal, words=(LOCKSTEP, "run", "/srv/train"), **more):
        env = {**JOB, "PET_NNODES": self.count, "PET_NODE_RANK": ordinal, **more}
        self.pods[ordinal] = self.bed[ordinal + 1].start(*words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def publish(self, suffix=".train"):
        """The service's records, as they are now."""
        self.bed.name("".join(f"{machine.v4} train-{machine.index - 1}{suffix}\n" for machine in self.bed))

    def said(self):
        file = self.bed.folder / "said"
        return sorted(file.read_text().splitlines()) if file.exists() else []

    def wait_for(self, attempt):
        """Until all workers of the attempt run."""
        wanted = [f"rank {rank} of {2 * self.count}, attempt {attempt}" for rank in range(2 * self.count)]
        end = time.monotonic() + 30
        while not set(wanted) <= set(self.said()):
            if time.monotonic() > end:
                self.fail(f"no attempt {attempt}: {self.said()}\n" + "\n".join(self.close()))
            time.sleep(0.02)
        self.assertEqual([line for line in self.said() if line.endswith(f"attempt {attempt}")], wanted)

    def close(self):
        for pod in self.pods.values():
            pod.kill()
        return [f"pod {ordinal}: {pod.communicate()[0]}" for ordinal, pod in self.pods.items()]

    def end_well(self):
        (self.bed.folder / "end").touch()
        said = {ordinal: pod.communicate(timeout=30)[0] for ordinal, pod in self.pods.items()}
        self.assertEqual({ordinal: pod.returncode for ordinal, pod in self.pods.items()}, dict.fromkeys(self.pods, 0), said)
        self.assertEqual([machine.pids() for machine in self.bed], [[]] * self.count)
        return said

    def come_back(self, *ordinals, number, **more):
        """Their machines fail; they are there again with other addresses, which the service gets to know a little later."""
        for ordinal in ordinals:
            self.bed[ordinal + 1].kill()
            self.pods.pop(ordinal).communicate()
            self.bed[ordinal + 1].move(number + ordinal)
            self.bed[ordinal + 1].boot()
            self.start(ordinal, **more)
        time.sleep(0.5)
        self.publish()

    def test_a_drained_pod_ends_the_run_and_all_begin_anew(self):
        for pause in ("0", "0.3"):
            with self.subTest(pause=pause):
                self.cluster(3)
                self.publish()
                for ordinal in range(3):  # as OnFailure does it
                    self.start(ordinal, ("sh", "-c", f'until "$0" run /srv/train; do echo "ended with $?"; sleep {pause}; done', LOCKSTEP))
                self.wait_for(0)
                first = self.said()
                (self.bed.folder / "said").unlink()
                launcher = next(pid for pid in children_of(self.pods[1].inner) if words_of(pid)[0] == LOCKSTEP.encode())
                os.kill(launcher, signal.SIGTERM)
                self.wait_for(0)
                self.assertEqual(self.said(), first)
                said = self.end_well()
                for text in said.values():
                    self.assertEqual(set(re.findall("ended with (.*)", text)), {"143"}, said)
                self.doCleanups()

    def command_of(self, file):
        """A container's, of examples/kubernetes."""
        text = (ROOT / "examples/kubernetes" / file).read_text()
        self.assertIn("command: [sh, -c]", text)
        return textwrap.dedent(text.split("- |\n")[1]).replace("--nproc-per-node cpu", "--nproc-per-node 2")

    def start_container(self, ordinal, *words):
        env = {"LOCKSTEP_RUN_KEY": KEY, "PATH": f"/srv:{os.environ['PATH']}", "PYTHON_EXEC": sys.executable,
               "HOSTNAME": f"train-{ordinal}", "JOB_COMPLETION_INDEX": ordinal}
        self.pods[ordinal] = self.bed[ordinal + 1].start(*words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def start_as_in(self, file):
        for ordinal in range(self.count):
            self.start_container(ordinal, "sh", "-c", self.command_of(file))
        self.publish()
        self.wait_for(0)

    def test_an_indexed_job_as_in_the_guide(self):
        self.cluster(4, names="none")
        self.start_as_in("job.yaml")
        self.end_well()

    def test_a_stateful_set_as_in_the_guide(self):
        self.cluster(4, names="none")
        self.start_as_in("statefulset.yaml")
        (self.bed.folder / "end").touch()

        wanted, end = [[b"sh", b"sleep"]] * 4, time.monotonic() + 30
        while (found := [sorted(words_of(pid)[0] for pid in machine.pids()) for machine in self.bed]) != wanted and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(found, wanted, "who is done stays")
        for pod in self.pods.values():  # until it is taken away
            pod.send_signal(signal.SIGTERM)
        for pod in self.pods.values():
            said = pod.communicate(timeout=20)[0]
            self.assertEqual(pod.returncode, 0, said)
        self.assertEqual([machine.pids() for machine in self.bed], [[]] * 4)

    def first_process(self):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            for pid in self.bed[1].pids():
                if words_of(pid)[0] == b"unshare" and (first := children_of(pid)):
                    return first[0]
            time.sleep(0.02)
        self.fail("no container")

    def test_a_containers_first_process_hands_term_on(self):
        # Process 1 hears of a signal only what it has asked for. A container's is the shell, or what that execs.
        self.cluster(1)
        self.publish()
        for file in ("job.yaml", "statefulset.yaml"):
            with self.subTest(file=file):
                self.start_container(0, "unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", self.command_of(file))
                first = self.first_process()
                end = time.monotonic() + 20
                while time.monotonic() < end and not any(words_of(pid)[0] == LOCKSTEP.encode() and heeds_term(pid)
                                                         for pid in (first, *children_of(first))):
                    time.sleep(0.05)
                os.kill(first, signal.SIGTERM)
                said = self.pods[0].communicate(timeout=20)[0]
                self.assertEqual(self.pods[0].returncode, 143, said)

    def test_two_nodes_on_one_machine_as_in_the_guide(self):
        self.cluster(1)
        said = self.bed[1].run("sh", ROOT / "examples/two_nodes.sh", env={"PATH": f"/srv:{os.environ['PATH']}"}).stdout
        self.assertEqual(sorted(re.findall(r"rank \d of 4 on node \d", said)), [f"rank {rank} of 4 on node {rank // 2}" for rank in range(4)])
        self.assertEqual(self.bed[1].pids(), [])

    def test_the_endpoints_pod_learns_its_name_late(self):
        # A headless service without publishNotReadyAddresses names a pod once it is ready.
        self.cluster(3, names="own")
        for ordinal in range(3):
            self.start(ordinal)
        time.sleep(1.5)
        self.assertEqual(self.said(), [])
        self.publish()
        self.wait_for(0)
        self.end_well()

    def test_the_endpoints_name_leads_to_an_earlier_pod_at_first(self):
        self.cluster(2, names="none")
        self.bed.name(f"{self.bed[2].v4} train-0.train\n")  # now another pod's
        for ordinal in range(2):
            self.start(ordinal, PET_NODE_RANK=ordinal)
        time.sleep(0.5)
        self.publish()
        self.wait_for(0)
        self.end_well()

    def test_a_pod_comes_back_with_another_address(self):
        self.cluster(3)
        self.publish()
        for ordinal in range(3):
            self.start(ordinal)
        self.wait_for(0)
        self.come_back(2, number=70)
        self.wait_for(1)
        self.end_well()

    def test_a_pod_without_a_rank_comes_back_with_another_address(self):
        elastic = {"PET_NODE_RANK": "", "PET_NNODES": "3:3"}  # of a PyTorchJob with elasticPolicy; empty is not set
        self.cluster(3)
        self.publish()
        for ordinal in range(3):
            self.start(ordinal, **elastic)
        self.wait_for(0)
        self.come_back(1, number=70, **elastic)
        self.wait_for(1)
        self.end_well()

    def test_the_endpoints_pod_comes_back_with_another_address(self):
        self.cluster(3)
        self.publish()
        for ordinal in range(3):
            self.start(ordinal)
        self.wait_for(0)
        self.come_back(0, number=80)
        self.wait_for(1)
        said = self.end_well()
        self.assertFalse(re.search(r"Traceback|internal", str(said)), said)


if __name__ == "__main__":
    hosts.enter()
    if hosts.missing():
        print(f"skipped: {hosts.missing()}")
        sys.exit(77)
    unittest.main()
