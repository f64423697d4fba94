#!/usr/bin/env python3
"""What workers find in their environment, and what launchers end with, on two machines: beside torchrun's, in the tables of
docs/guide/beside_torchrun.md.

    beside_torchrun.py [--write]    measures, and compares with the page; --write makes the page anew

LOCKSTEP_PROGRAM  the launcher
LOCKSTEP_PYTHON   a Python with torch; beside it is its torchrun. Without one torchrun's columns are not looked at.
Exit 77: skipped, where the system has no namespaces.
"""
import difflib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import hosts  # noqa: E402

PAGE = ROOT / "docs/guide/beside_torchrun.md"
KEY = "0123456789abcdef0123456789abcdef"
WORKERS = 4  # on two nodes
LEFT_ALONE = 10.0  # seconds for the other launcher to follow
STILL = "still runs"
OF_THE_USER = ("OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "LOGLEVEL")
SHELL = {"PWD", "OLDPWD", "SHLVL", "_", "JOB", "HOW", "LC_CTYPE"}
WORKER = """
import json, os, signal, sys, time
rank, job, how = int(os.environ["RANK"]), os.environ["JOB"], os.environ["HOW"]
with open(f"/srv/{job}-{rank}.tmp", "w") as file:
    json.dump(dict(os.environ), file)
os.rename(f"/srv/{job}-{rank}.tmp", f"/srv/{job}-{rank}.json")
if how == "ends":
    sys.exit(0)
while not all(os.path.exists(f"/srv/{job}-{other}.json") for other in range(4)):
    time.sleep(0.01)
if rank == 3 and how == "exits":
    sys.exit(7)
if rank == 3 and how == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(600)
"""

# What happens, how its workers do, what is done to which launcher; with c10d's form.
ENDS = [
    ("all workers end with 0", "ends", None),
    ("a worker of node 1 ends with 7", "exits", None),
    ("a worker of node 1 is killed by SIGKILL", "dies", None),
    ("node 1's launcher gets TERM", "waits", (1, signal.SIGTERM)),
    ("node 1's launcher gets INT", "waits", (1, signal.SIGINT)),
    ("node 1's launcher gets KILL", "waits", (1, signal.SIGKILL)),
    ("node 0's launcher, whose machine is the endpoint, gets KILL", "waits", (0, signal.SIGKILL)),
]
NOBODY = "nobody else comes (`--rdzv-conf join_timeout=3`)"
WRONG = "an unknown option"

NOTES = {  # of what is other than torchrun's
    "GLOO_SOCKET_IFNAME": "unless you set it: Gloo looks up the machine's own name, which may lead nowhere or to the loopback",
    "LOCKSTEP_PLAIN_PROGRAM": "ours: a program that links Lockstep after all is told so",
    "LOCKSTEP_RUN_KEY": "taken out: whoever has the key can take part in the run",
    "LOCKSTEP_STARTED_BY": "ours: a number of the launcher's, by which all that its workers have started is found",
    "MASTER_ADDR": "an address always, so that no name has to be known everywhere",
    "MASTER_PORT": "",
    "TORCHELASTIC_ERROR_FILE": "",
    "TP_SOCKET_IFNAME": "unless you set it: TensorPipe (RPC) looks up the machine's own name, too",
    "TORCHELASTIC_SIGNALS_TO_HANDLE": "of the launcher, and nobody's business but its own",
}


class Job:
    def __init__(self, bed, tag, words, how="ends", on=None, nodes=(0, 1)):
        self.bed, self.name, self.on, self.left_alone = bed, tag, on, None
        env = {"JOB": tag, "HOW": how, "LOCKSTEP_RUN_KEY": KEY, "PATH": f"{pathlib.Path(python()).parent}:{os.environ['PATH']}"}
        self.logs = [open(bed.folder / f"{tag}-{node}.log", "w+b") for node in nodes]
        self.launchers = [bed[node + 1].start(*(word.replace("NODE", str(node)) for word in words), "/srv/worker.py", env=env, stdout=log,
                                              stderr=subprocess.STDOUT) for node, log in zip(nodes, self.logs)]

    def environments(self):
        files = [self.bed.folder / f"{self.name}-{rank}.json" for rank in range(WORKERS)]
        return [json.loads(file.read_text()) for file in files if file.exists()]

    def act(self, deadline):
        """Does what is to be done once all workers are there."""
        while self.on and len(self.environments()) < WORKERS:
            if time.monotonic() > deadline or any(launcher.poll() is not None for launcher in self.launchers):
                raise AssertionError(f"{self.name}: not all workers have begun\n{self.said()}")
            time.sleep(0.02)
        if self.on:
            self.launchers[self.on[0]].send_signal(self.on[1])

    def running(self, deadline):
        """Whether the codes are not known yet: of one that does not follow the other in time it is STILL."""
        self.codes = [launcher.poll() for launcher in self.launchers]
        if None in self.codes and any(code is not None for code in self.codes):
            self.left_alone = self.left_alone or time.monotonic() + LEFT_ALONE
        return None in self.codes and time.monotonic() < min(deadline, self.left_alone or deadline)

    def ends(self):
        for launcher in self.launchers:
            launcher.kill()
        return [STILL if code is None else str(code) for code in self.codes]

    def said(self):
        return "".join(f"--- node {node}\n{pathlib.Path(log.name).read_text(errors='replace')[-2000:]}" for node, log in enumerate(self.logs))


def python():
    return os.environ.get("LOCKSTEP_PYTHON") or shutil.which("python3") or sys.executable


def torchrun():
    program = pathlib.Path(python()).parent / "torchrun"
    return str(program) if program.exists() else None


class Forms:
    """Command lines, each with a port of its own."""

    def __init__(self, bed, launcher):
        self.address, self.launcher, self.port = bed[1].address, launcher, 29500

    def static(self, *more):
        self.port += 1
        return [*self.launcher, "--nnodes", "2", "--nproc-per-node", "2", "--node-rank", "NODE", "--master-addr", self.address,
                "--master-port", str(self.port), *more]

    def c10d(self, *more):
        self.port += 1
        return [*self.launcher, "--nnodes", "2", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                f"{self.address}:{self.port}", "--rdzv-id", "example", *more]


def shown(name, values, port):
    """One variable's values, by rank, without what is another at each run."""
    if all(value is None for value in values):
        return "-"
    if name == "MASTER_PORT":
        values = ["the given port" if value == str(port) else "a fresh port" for value in values]
    if name == "TORCHELASTIC_ERROR_FILE":
        values = [re.sub(r"^/tmp/.*/attempt_", "…/attempt_", value) for value in values]
    if name == "LOCKSTEP_STARTED_BY":
        values = ["…" if value else value for value in values]
    if name == "LOCKSTEP_RUN_KEY":
        values = ["the key" if value else value for value in values]
    return f"`{values[0]}`" if len(set(values)) == 1 else ", ".join(f"`{value}`" for value in values)


def measure(launcher):
    """{"environment": {form: {variable: text}}, "codes": {what: text}}"""
    with hosts.Bed(2) as bed:
        (bed.folder / "worker.py").write_text(WORKER)
        forms = Forms(bed, launcher)
        begun, deadline = dict(bed[1].environment()), time.monotonic() + 150
        static, static_port = Job(bed, "static", forms.static()), forms.port
        jobs = {what: Job(bed, f"c10d{index}", forms.c10d(), how, on) for index, (what, how, on) in enumerate(ENDS)}
        jobs[NOBODY] = Job(bed, "nobody", forms.c10d("--rdzv-conf", "join_timeout=3"), nodes=[0])
        jobs[WRONG] = Job(bed, "wrong", forms.c10d("--no-such-option"))
        environment = {}
        for job in jobs.values():
            job.act(deadline)
        while [job for job in (static, *jobs.values()) if job.running(deadline)]:
            time.sleep(0.02)
        codes = {what: ", ".join(job.ends()) for what, job in jobs.items()}
        if (ended := static.ends()) != ["0", "0"]:
            raise AssertionError(f"the static form ends with {ended}\n{static.said()}")
        for form, job, port in (("static", static, static_port), ("c10d", jobs[ENDS[0][0]], -1)):
            workers = job.environments()
            if len(workers) != WORKERS:
                raise AssertionError(f"{len(workers)} workers of {WORKERS}\n{job.said()}")
            names = {name for worker in workers for name in worker} - SHELL
            inherited = {name for name in names if all(worker.get(name) == begun.get(name) for worker in workers)}
            names -= inherited | {name for name in names if name in begun and name.startswith(("HOME", "HOSTNAME", "PATH"))}
            environment[form] = {name: shown(name, [worker.get(name) for worker in workers], port) for name in names}
        return {"environment": environment, "codes": codes}


def environment_table(form, ours, torchruns):
    rows = [f"| variable | torchrun {torch_version()} | `lockstep run` | why |", "|---|---|---|---|"]
    for name in sorted({*ours[form], *torchruns[form]}):
        theirs, here = torchruns[form].get(name, "-"), ours[form].get(name, "-")
        if theirs != here and name not in NOTES:
            raise AssertionError(f"{name} is other than torchrun's, and no note says why: {theirs} and {here}")
        rows.append(f"| {name} | {theirs} | {'the same' if theirs == here else here} | {(NOTES[name] if theirs != here else '') or '-'} |")
    return "\n".join(rows)


def torch_version():
    found = subprocess.run([python(), "-c", "from importlib.metadata import version; print(version('torch'))"], capture_output=True, text=True)
    return found.stdout.strip().split("+")[0]


def page(ours, torchruns):
    codes = "\n".join(f"| {what} | {torchruns['codes'][what]} | {ours['codes'][what]} |" for what in ours["codes"])
    tables = {form: environment_table(form, ours["environment"], torchruns["environment"]) for form in ("static", "c10d")}
    return f"""# Two nodes beside torchrun

Measured: `tests/fault/beside_torchrun.py` writes this page and compares it at each run of the tests. Two nodes, two
workers each; a row with several values has them by rank.

## What a worker finds in its environment

With `--nnodes 2 --node-rank R --master-addr 10.77.0.1 --master-port PORT`:

{tables["static"]}

With `--nnodes 2 --rdzv-backend c10d --rdzv-endpoint 10.77.0.1:PORT --rdzv-id example`:

{tables["c10d"]}

## What the launchers end with

On node 0 and on node 1, in the second form, with `--max-restarts 0`; what has not ended {LEFT_ALONE:.0f} s after the
other `{STILL}`. [All codes](errors.md).

| what happens | torchrun {torch_version()} | `lockstep run` |
|---|---|---|
{codes}
"""


def without_torchrun(ours):
    """What the page has otherwise, in our columns alone."""
    static, c10d, codes = ({row[0]: row for line in part.splitlines() if (row := [cell.strip() for cell in line.strip("|").split(" | ")])[0]}
                           for part in re.split(r"^(?:With `--nnodes.*|On node 0 and.*)$", PAGE.read_text(), flags=re.MULTILINE)[1:])
    problems = []
    for table, measured in ((static, ours["environment"]["static"]), (c10d, ours["environment"]["c10d"]), (codes, ours["codes"])):
        for what, text in measured.items():
            row = table.get(what, ["", "no row", "no row"])
            if (row[1] if row[2] == "the same" else row[2]) != text:
                problems.append(f"{what}: {text}; the page has {row[1:]}")
    return problems


def main():
    if lacks := hosts.missing():
        print(f"skipped: {lacks}")
        return 77
    for name in OF_THE_USER:
        os.environ.pop(name, None)
    ours = measure([os.environ["LOCKSTEP_PROGRAM"], "run"])
    if torchrun() is None:
        print("no torchrun here: its columns are not looked at")
        problems = without_torchrun(ours)
        print("\n".join(problems))
        return 1 if problems else 0
    text = page(ours, measure([torchrun()]))
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(text)
        return 0
    if text == PAGE.read_text():
        print(f"{PAGE.name}: {len(ours['codes'])} ends and {len(ours['environment']['static'])} variables are as the page has them")
        return 0
    print("\n".join(line for line in difflib.unified_diff(PAGE.read_text().splitlines(), text.splitlines(), "page", "measured", lineterm="")))
    print("if that is right: beside_torchrun.py --write")
    return 1


if __name__ == "__main__":
    hosts.enter()
    sys.exit(main())
