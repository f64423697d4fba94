"""A real Slurm over the machines of a bed: a controller in machine 1, a slurmd in each, one partition with all."""
import contextlib
import functools
import os
import secrets
import shutil
import subprocess
import time

from hosts.bed import Bed
from hosts.namespaces import Missing

PROGRAMS = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client"}
CONFIGURATION = """ClusterName=test
SlurmctldHost=host1({controller})
AuthType=auth/munge
AuthInfo=socket=/srv/slurm/munge,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=/srv/slurm/state
SlurmdSpoolDir=/var/tmp/slurmd
SlurmctldPidFile=/var/tmp/slurmctld.pid
SlurmdPidFile=/var/tmp/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdTimeout={silence}
InactiveLimit=0
KillWait={kill_wait}
CompleteWait=0
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """Ends with the bed. silence: seconds after which a node is down; kill_wait: from TERM to KILL; cpus: of each node, to be shared."""

    def __init__(self, bed, silence=5, kill_wait=3, cpus=8):
        self.bed, self.folder = bed, bed.folder / "slurm"
        (self.folder / "state").mkdir(parents=True)
        for folder in (bed.folder, self.folder):
            folder.chmod(0o755)
        (self.folder / "key").write_bytes(secrets.token_bytes(128))
        (self.folder / "key").chmod(0o400)
        nodes = "".join(f"NodeName={m.name} NodeAddr={m.v4} CPUs={cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1\n" for m in bed)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(controller=bed[1].v4, silence=silence, kill_wait=kill_wait, nodes=nodes))
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nConstrainCores=no\n")
        self.start(bed[1], "munge", "munged", "--foreground", "--force", "--num-threads=2", "--key-file=/srv/slurm/key",
                   "--socket=/srv/slurm/munge", "--pid-file=/var/tmp/munged.pid", "--log-file=/srv/slurm/munged.log", "--seed-file=/var/tmp/seed")
        self.wait_for(lambda: (self.folder / "munge").exists(), "munged")
        self.start(bed[1], "controller", "slurmctld", "-D", "-i")
        for machine in bed:
            self.join(machine)
        self.wait_for(lambda: self.idle() == len(list(bed)), "nodes")

    def start(self, machine, name, *words):
        with (self.folder / f"{name}.log").open("ab") as log:
            return machine.start(*words, env=self.environment(), stdout=log, stderr=log)

    def join(self, machine):
        """Starts slurmd there, also after the machine has been booted again."""
        return self.start(machine, machine.name, "slurmd", "-D")

    @staticmethod
    def environment(more=None):
        return {"SLURM_CONF": "/srv/slurm/slurm.conf", "HOME": "/srv/home", **(more or {})}

    def idle(self):
        done = self.bed[1].run("sinfo", "-h", "-t", "idle", "-o", "%D", env=self.environment(), check=False)
        return int(done.stdout.strip() or 0) if done.returncode == 0 else 0

    def wait_for(self, what, name, seconds=30):
        end = time.monotonic() + seconds
        while not (got := what()):
            if time.monotonic() > end:
                logs = {log.name: log.read_text(errors="replace")[-1500:] for log in self.folder.glob("*.log")}
                raise Missing(f"Slurm: no {name} within {seconds} s: " + "\n".join(f"{name}: {text}" for name, text in logs.items()))
            time.sleep(0.1)
        return got

    def run(self, *words, check=True, env=None, timeout=60):
        """sbatch, srun, scancel … in machine 1."""
        return self.bed[1].run(*words, env=self.environment(env), check=check, timeout=timeout)

    def submit(self, script, *options, env=None):
        """Writes a batch file and gives it to sbatch: the job's number. Its output is in output(job)."""
        file = self.bed.folder / "job.sh"
        file.write_text(script)
        return int(self.run("sbatch", "--parsable", "--output=/srv/out-%j", *options, "/srv/job.sh", env=env).stdout)

    def output(self, job):
        with contextlib.suppress(OSError):
            return (self.bed.folder / f"out-{job}").read_text(errors="replace")
        return ""

    def state(self, job):
        """PENDING, RUNNING, COMPLETED …, and how its batch script ended: ("FAILED", "69:0")."""
        said = dict(word.split("=", 1) for word in self.run("scontrol", "show", "-o", "job", str(job)).stdout.split() if "=" in word)
        return said["JobState"], said["ExitCode"]


@functools.cache
def missing():
    """What this system lacks for a Slurm over machines, in words; "" where it has all."""
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            return f"there is no {program} (package {package}) on this system"
    if os.geteuid() != 0:
        return "not root here, who alone can run slurmd"
    try:
        with Bed(1) as bed:
            Slurm(bed).run("srun", "-N", "1", "true")
    except (Missing, OSError, subprocess.SubprocessError) as error:
        return f"Slurm does not run here: {error} {getattr(error, 'stderr', '')}"
    return ""


