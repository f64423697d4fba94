"""Workers of the ConvNet's run are killed with SIGKILL at random moments: what a death costs, by phase.

Checked first: an undisturbed run; every run with kills must end with its weights, to the last bit.
"""
import json
import os
import subprocess

from figures.common import Missing, check, launch, median, peer_or_reason, percentile, weights_hash

WORKERS = 3


def kill_runs(bench, label, program, last_txn, kills_wanted, kills_per_run, delay_ms):
    """Deaths, as kill_driver tells them, over as many runs as it takes."""
    output = bench.path(label + "-run")
    expected = weights_hash(launch(bench.run(WORKERS, *program(output))))
    deaths, seed = [], 0
    while len(deaths) < kills_wanted:
        seed += 1
        check(seed <= 20 * max(1, kills_wanted // kills_per_run), f"{label}: runs end before they have been killed")
        log = bench.path(label + ".log")
        command = [bench.program("kill_driver"), "--log", log, "--seed", str(seed), "--kills", str(min(kills_per_run, kills_wanted - len(deaths))),
                   "--until", str(last_txn), "--delay", str(delay_ms), "--",
                   *bench.run(WORKERS, *program(output), options=["--max-replacements", "1000000"])]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600)
        text = open(log).read()
        check(done.returncode == 0, f"{label}: a run with kills ended with exit {done.returncode}: {text[-800:]}")
        check(weights_hash(text) == expected, f"{label}: a run with kills gave other weights (seed {seed})")
        deaths += [row for row in map(json.loads, done.stdout.splitlines()) if "excess" in row]
    return deaths


def peer_recovery(bench, runs):
    """Seconds from SIGKILL until every rank is back at the step at which it happened; a hang counts as the limit.

    With a store of its own, the setting under which torchrun's restarts do work: by default some hang or fail the job.
    """
    script, times, limit = bench.peer("trainer.py"), [], 60
    if subprocess.run([bench.python(), "-c", "import torchvision"], capture_output=True).returncode != 0:
        raise Missing("Python has no torchvision")
    for i in range(runs):
        folder = bench.path(f"peer-recovery-{i}")
        command = bench.torchrun(WORKERS, "--max-restarts=3", script, "--dir", folder, "--samples", "30000", "--kill-rank", "1", "--kill-step", "150")
        process = subprocess.Popen(command, env={**os.environ, **bench.peer_env(PEER_DATA=bench.peer_data(), TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")}, start_new_session=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            pass
        finally:
            stop_session(process)
        times.append(back_after(folder, limit))
    return times


def stop_session(process):
    """torchrun's workers have sessions of their own: found by their parent, ended by their ids."""
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True).stdout.split()
    process.kill()
    process.wait()
    for pid in children:
        try:
            os.kill(int(pid), 9)
        except ProcessLookupError:
            pass


def back_after(folder, limit):
    events = []
    for name in os.listdir(folder + "/events"):
        events += [json.loads(line) for line in open(f"{folder}/events/{name}") if line.endswith("\n")]
    kill = next(e for e in events if e["ev"] == "kill")
    back = [e["t"] for e in events if e["ev"] == "step" and e["attempt"] > 0 and e["step"] == kill["step"]]
    return min(max(back) - kill["t"], limit) if len(back) == WORKERS else limit


def measure(bench):
    kills = 20 if bench.quick else 200
    bench.idle()

    def program(output):
        return [bench.convnet, "--epochs", "1", "--data", bench.data(), "--max-steps", "199", "--log-every", "0",
                "--checkpoint-every", "0", "--resume", "never", "--output", output]

    deaths = kill_runs(bench, "recovery", program, 185, kills, 20, 200)
    peers, why = peer_or_reason(lambda: peer_recovery(bench, 1 if bench.quick else 3))
    peer_ms = median(peers) * 1000 if peers else None

    def of(key):
        return [death[key] for death in deaths if death[key] is not None]

    bench.row("recovery/excess", "ms", of("excess"), goal=25)
    bench.row("recovery/total_p99", "ms", of("total"), value=percentile(of("total"), 0.99), goal=500, peer=peer_ms, why_no_peer=why)
    bench.row("recovery/total", "ms", of("total"), peer=peer_ms, why_no_peer=why)
    for phase in ("noticed", "seen", "regrouped", "resumed", "computing", "joined"):
        bench.row("recovery/" + phase, "ms", of(phase))
