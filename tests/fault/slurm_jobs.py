#!/usr/bin/env python3
"""Runs on several nodes as jobs of a real Slurm, which runs over machines of namespaces: what a step says, how it ends, what is left.

Exit 77: skipped, where the system does not have what they need.
"""
import os
import pathlib
import re
import shlex
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import hosts  # noqa: E402
from hosts import slurm  # noqa: E402

LOCKSTEP = os.path.realpath(os.environ["LOCKSTEP_PROGRAM"])
KEY = {"LOCKSTEP_RUN_KEY": "5e1f0c9d" * 8}
DAEMONS = ("munged", "slurm")  # and those that they have made; no other name begins so
# train FILE TENTHS: says in /srv/FILE who it is, and that it was told to end; works for so many tenths of a second. `stubborn` heeds no TERM.
WORKER = """#!/bin/bash
file=/srv/$1
end() { echo "rank $RANK got $1" >>$file; exit 0; }
trap 'end TERM' TERM; trap 'end USR1' USR1
[ "$2" != stubborn ] || trap '' TERM
node="node $GROUP_RANK of $GROUP_WORLD_SIZE on $(hostname)"
echo "rank $RANK of $WORLD_SIZE, $node, run $TORCHELASTIC_RUN_ID at $MASTER_ADDR:$MASTER_PORT" >>$file
for ((i = 0; i < ${2/stubborn/6000}; ++i)); do sleep 0.1; done
"""


class Jobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bed = hosts.Bed(3)
        cls.addClassCleanup(cls.bed.close)
        cls.slurm = slurm.Slurm(cls.bed)
        cls.bed.program("train", WORKER)
        cls.bed.program("lockstep", f'#!/bin/sh\nexec {shlex.quote(LOCKSTEP)} "$@"\n')

    def setUp(self):
        self.file = self._testMethodName

    def submit(self, body, *options, env=KEY, setup="export PATH=/srv:$PATH FILE={file}\n"):
        return self.slurm.submit(f"#!/bin/bash\n{setup.format(file=self.file)}{body}\n", *options, env=env)

    def said(self, file=None):
        path = self.bed.folder / (file or self.file)
        return sorted(path.read_text().splitlines()) if path.exists() else []

    def got(self):
        """Slurm may signal every process of a step: a worker gets a signal from it, and from its launcher."""
        return sorted({line for line in self.said() if "got" in line})

    def wait_for(self, what, name, seconds=40):
        return self.slurm.wait_for(what, name, seconds)

    def started(self, count, file=None):
        self.wait_for(lambda: len([line for line in self.said(file) if " of " in line]) >= count, f"{count} workers of {file or self.file}")
        return self.said(file)

    def state_of(self, job, *states):
        try:
            return self.wait_for(lambda: self.slurm.state(job)[0] in states and self.slurm.state(job), f"job {job} in {states}")
        except hosts.Missing as error:
            self.fail(f"{error}\n{self.slurm.state(job)}\n{self.slurm.output(job)}")

    def completed(self, job):
        self.assertEqual(self.state_of(job, "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"), ("COMPLETED", "0:0"), self.slurm.output(job))
        return self.slurm.output(job)

    def left(self):
        found = []
        for machine in self.bed:
            for pid in machine.pids() if machine.space else []:
                try:
                    words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                name = os.path.basename(os.fsdecode(words[0])).strip(": ")
                if name and not name.startswith(DAEMONS):
                    found.append(f"{machine.name}: {b' '.join(words).decode(errors='replace')}")
        return found

    def nothing_is_left(self):
        self.wait_for(lambda: not self.left(), f"end of {self.left()}", 20)

    def lines(self, numbers, run, nodes=("host1", "host2", "host3")):
        """What workers are to say, where the nodes have so many; the port may be any."""
        nodes = nodes[:len(numbers)]
        places = [(node, name) for node, (name, number) in enumerate(zip(nodes, numbers)) for _ in range(number)]
        return [f"rank {rank} of {sum(numbers)}, node {node} of {len(numbers)} on {name}, run {run} at {self.bed[int(nodes[0][4:])].v4}:"
                for rank, (node, name) in enumerate(places)]

    def are(self, said, wanted):
        self.assertEqual([re.sub(r"(:)\d+$", r"\1", line) for line in said], wanted)

    def port(self, job, step):
        return 20000 + (7 * job + step) % 10000

    def test_a_step_says_all(self):
        for count in (2, 3):
            self.file = f"nodes-{count}"
            job = self.submit("srun lockstep run train $FILE 2", f"-N{count}", "--ntasks-per-node=1")
            self.completed(job)
            self.are(self.said(), self.lines([1] * count, f"{job}.0"))
            self.assertEqual({int(line.rsplit(":", 1)[1]) for line in self.said()}, {self.port(job, 0)})

    def test_nodes_with_unequal_numbers_of_workers(self):
        job = self.submit("srun sh -c 'exec lockstep run --nproc-per-node $((SLURM_NODEID + 1)) train $FILE 2'",
                          "-N3", "--ntasks-per-node=1")
        self.completed(job)
        self.are(self.said(), self.lines([1, 2, 3], f"{job}.0"))

    def test_a_heterogeneous_job(self):
        job = self.submit("#SBATCH -N1 --ntasks-per-node=1\n#SBATCH hetjob\n#SBATCH -N2 --ntasks-per-node=1\n"
                          f"export PATH=/srv:$PATH\nsrun --het-group=0,1 lockstep run train {self.file} 2", setup="")
        self.completed(job)
        self.are(self.said(), self.lines([1, 1, 1], f"{job}.0"))

    def test_the_usual_form_with_an_endpoint(self):
        job = self.submit('head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tail -n 1)\n'
                          "srun lockstep run --nnodes $SLURM_NNODES --rdzv-id $SLURM_JOB_ID --rdzv-backend c10d "
                          "--rdzv-endpoint $head:29500 train $FILE 2\n"
                          "export head; srun sh -c 'exec lockstep run --nnodes $SLURM_NNODES --node-rank $((2 - SLURM_NODEID)) "
                          "--rdzv-id $SLURM_JOB_ID --rdzv-endpoint $head:29500 train $FILE-own 2'", "-N3", "--ntasks-per-node=1")
        said = self.completed(job)
        self.are(self.said(), self.lines([1, 1, 1], job))
        self.are(self.said(self.file + "-own"), self.lines([1, 1, 1], job, ("host3", "host2", "host1")))
        self.assertEqual(said.count("--node-rank 0 on the node that has SLURM_NODEID=2"), 1, said)

    def test_steps_smaller_than_their_job_and_at_once(self):
        job = self.submit("srun --overlap -N2 -n2 -w host2,host3 lockstep run train $FILE-0 10 &\nwait -n\n"
                          "for i in 1 2; do srun --overlap lockstep run train $FILE-$i 10 & done; wait -n && wait -n", "-N3", "--ntasks-per-node=1")
        self.completed(job)
        self.are(self.said(self.file + "-0"), self.lines([1, 1], f"{job}.0", ("host2", "host3")))
        ports = set()
        for file in (self.file + "-1", self.file + "-2"):
            said = self.said(file)
            step = re.search(r"run \d+\.(\d+) ", said[0])[1]
            self.are(said, self.lines([1, 1, 1], f"{job}.{step}"))
            ports |= {int(line.rsplit(":", 1)[1]) for line in said}
        self.assertEqual(ports, {self.port(job, 1), self.port(job, 2)})

    def test_what_is_refused_is_refused_on_every_node(self):
        job = self.submit("srun -N3 -n6 --overlap lockstep run train $FILE 10; echo code $?\n"
                          "srun -N3 -n3 --overlap env -u LOCKSTEP_RUN_KEY lockstep run train $FILE 10; echo code $?", "-N3", "--ntasks-per-node=2")
        said = self.completed(job)
        self.assertEqual(said.count("one lockstep per node"), 6, said)
        self.assertEqual(said.count("LOCKSTEP_RUN_KEY"), 3, said)
        self.assertEqual(re.findall(r"^code (\d+)", said, re.M), ["2", "2"])
        self.assertEqual(self.said(), [])

    def test_a_key_in_the_shared_home(self):
        job = self.submit("export HOME=/srv/home-of-all; mkdir -p $HOME; lockstep key && srun lockstep run train $FILE 2",
                          "-N2", "--ntasks-per-node=1", env={})
        self.completed(job)
        self.are(self.said(), self.lines([1, 1], f"{job}.0"))

    def test_a_batch_script_without_srun_is_one_node(self):
        job = self.submit("lockstep run --nproc-per-node 2 train $FILE 2", "-N3", "--ntasks-per-node=1")
        self.assertIn("the launcher was not started by srun", self.completed(job))
        self.assertEqual(len(self.said()), 2)

    def test_one_node_as_in_the_guide_for_torchrun(self):
        script = re.search(r"^## Under Slurm.*?```sh\n(.*?)```", (ROOT / "docs/guide/from_torchrun.md").read_text(), re.S | re.M)[1]
        home = self.bed.folder / "home-of-one"
        home.mkdir()
        (home / "train").write_text(f'#!/bin/sh\n[ "$1" = --output ] && exec /srv/train {self.file} 2\n')
        (home / "train").chmod(0o755)
        env = {"PATH": f"/srv:{os.environ['PATH']}", "HOME": "/srv/home-of-one"}
        job = self.slurm.submit(script, "--cpus-per-task=2", env=env)
        self.completed(job)
        self.assertEqual(len(self.said()), 2)

    def test_scancel(self):
        job = self.submit("srun lockstep run train $FILE 6000", "-N3", "--ntasks-per-node=1")
        self.started(3)
        self.slurm.run("scancel", str(job))
        self.state_of(job, "CANCELLED")
        self.nothing_is_left()
        self.assertEqual(self.got(), [f"rank {rank} got TERM" for rank in range(3)])

    def test_a_signal_to_the_step_is_the_runs_code(self):
        job = self.submit("srun lockstep run train $FILE 6000; echo code $?", "-N3", "--ntasks-per-node=1")
        self.started(3)
        self.slurm.run("scancel", "--signal=TERM", str(job))
        self.assertIn("code 143", self.completed(job))
        self.nothing_is_left()

    def test_who_does_not_heed_term_is_killed(self):
        job = self.submit("srun lockstep run train $FILE stubborn", "-N3", "--ntasks-per-node=1")
        self.started(3)
        self.slurm.run("scancel", str(job))
        self.state_of(job, "CANCELLED")
        self.nothing_is_left()
        self.assertEqual(self.got(), [])

    def test_a_job_that_is_requeued_has_its_id_again(self):
        job = self.submit("srun lockstep run train $FILE ${SLURM_RESTART_COUNT:+2}${SLURM_RESTART_COUNT:-6000}",
                          "-N3", "--ntasks-per-node=1", "--requeue")
        first = self.started(3)
        self.slurm.run("scontrol", "requeue", str(job))
        said = self.started(6)
        self.assertEqual(said.count(first[0]), 2, said)
        self.completed(job)
        self.nothing_is_left()

    def test_a_node_fails_and_the_job_is_requeued(self):
        job = self.submit("srun lockstep run --rdzv-conf keep_alive_interval=1,keep_alive_max_attempt=2 "
                          "train $FILE ${SLURM_RESTART_COUNT:+2}${SLURM_RESTART_COUNT:-6000}", "-w", "host2,host3", "--ntasks-per-node=1", "--requeue")
        self.started(2)
        self.bed[3].kill()
        self.wait_for(lambda: "host2: task 0: Exited with exit code 69" in self.slurm.output(job), "end on the other node")
        self.wait_for(lambda: self.slurm.state(job)[0] == "PENDING", "requeued job")
        self.nothing_is_left()
        self.bed[3].boot()
        self.slurm.join(self.bed[3])
        said = self.started(4)
        self.completed(job)
        self.are(said, sorted(2 * self.lines([1, 1], f"{job}.0", ("host2", "host3"))))

    def test_the_time_is_up(self):
        shown = (ROOT / "examples/slurm/nodes.sbatch").read_text()
        file = self.bed.folder / "nodes.sbatch"
        file.write_text(shown.replace("scontrol requeue", "echo requeue"))
        env = {**KEY, "PATH": f"/srv:{os.environ['PATH']}"}
        # Sent at the first look, one in 30 s, at which at most 80 + 30 of the 120 s are left: with fewer it may be sent before there is a step.
        options = ("--parsable", "--output=/srv/out-%j", "--cpus-per-task=1", "--time=2", "--signal=USR1@80")
        job = int(self.slurm.run("sbatch", *options, "/srv/nodes.sbatch", "/srv/train", self.file, "6000", env=env).stdout)
        told = self.submit(f"srun lockstep run train {self.file}-told 6000; echo code $?", "-N2", "--ntasks-per-node=1",
                           "--time=2", "--signal=TERM@80")
        state = self.wait_for(lambda: self.slurm.state(job)[0] == "FAILED" and self.slurm.state(job), "end of time", 90)
        self.assertEqual(state, ("FAILED", "138:0"))
        self.assertIn(f"requeue {job}", self.slurm.output(job))
        self.assertEqual(self.got(), ["rank 0 got USR1", "rank 1 got USR1"])
        self.assertIn("code 143", self.completed(told))
        self.assertEqual(sorted({line for line in self.said(f"{self.file}-told") if "got" in line}), ["rank 0 got TERM", "rank 1 got TERM"])
        self.nothing_is_left()




if __name__ == "__main__":
    hosts.enter()
    if why := hosts.missing() or slurm.missing():
        print(f"skipped: {why}")
        sys.exit(77)
    unittest.main()
