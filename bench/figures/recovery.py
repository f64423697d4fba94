"""Workers of the ConvNet's run are killed with SIGKILL at random moments: what a death costs, by phase.

Phases, from the SIGKILL: exited (the kernel has taken the process apart), noticed, aborted, resumed, total (committed), joined;
programs/kill_driver.cpp says what each is. There is no phase `regrouped`: a survivor works its new shares out from the list of the
dead before it stamps `aborted`, and the two stamps are less than a microsecond apart. resumed (the first adopted share) may come
before aborted (the last survivor).

Checked first: an undisturbed run; every run with kills must end with its weights, to the last bit.
"""
import json
import os
import subprocess
import time

from figures.common import check, interval, launch, median, peer_events, peer_or_reason, percentile, weights_hash

WORKERS = 3
HANG_S = 60  # after the kill


def kill_runs(bench, label, program, last_txn, kills_wanted, kills_per_run, delay_ms):
    """Deaths, as kill_driver tells them, over as many runs as it takes; with each, its run's median step."""
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
        *killed, end = map(json.loads, done.stdout.splitlines())
        deaths += [{**death, "median_step": end["median_step"]} for death in killed]
    return deaths


def peer_recovery(bench, runs):
    """Seconds from SIGKILL until every rank is back at the step at which it happened, of each run; None: it hung.

    With a store of its own, the setting under which torchrun's restarts do work: by default some hang or fail the job.
    """
    script = bench.peer_trainer()
    return [one_peer_run(bench, script, bench.path(f"peer-recovery-{i}")) for i in range(runs)]


def one_peer_run(bench, script, folder):
    command = bench.torchrun(WORKERS, "--max-restarts=3", script, "--dir", folder, "--samples", "30000", "--kill-rank", "1", "--kill-step", "150")
    process = subprocess.Popen(command, env={**os.environ, **bench.peer_env(PEER_DATA=bench.peer_data(), TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")},
                               start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        kill, back, begin = None, None, time.monotonic()
        while back is None:
            time.sleep(0.25)
            kill, back = back_after(folder)
            if kill is None:
                check(time.monotonic() < begin + 120 and process.poll() is None, "recovery: the peer did not reach the step of its kill")
            elif time.monotonic() > kill + HANG_S:
                break
        return back
    finally:
        stop_session(process)


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


def back_after(folder):
    """When the kill was, and the seconds from there until the last rank was back for the first time; None: not yet."""
    events = list(peer_events(folder + "/events"))
    kill = next((e for e in events if e["ev"] == "kill"), None)
    if kill is None:
        return None, None
    back = {}
    for e in events:
        if e["ev"] == "step" and e["attempt"] > 0 and e["step"] == kill["step"]:
            back[e["rank"]] = min(e["t"], back.get(e["rank"], e["t"]))
    return kill["t"], max(back.values()) - kill["t"] if len(back) == WORKERS else None


def measure(bench):
    kills = 20 if bench.quick else 200
    bench.idle()

    def program(output):
        return [bench.convnet, "--epochs", "1", "--data", bench.data(), "--max-steps", "199", "--log-every", "0",
                "--checkpoint-every", "0", "--resume", "never", "--output", output]

    deaths = kill_runs(bench, "recovery", program, 185, kills, 20, 200)
    peers, why = peer_or_reason(lambda: peer_recovery(bench, 1 if bench.quick else 10))
    came_back = [seconds for seconds in peers or [] if seconds is not None]
    hangs = len(peers or []) - len(came_back)
    known = {"peer": median(came_back) * 1000 if came_back else None, "why_no_peer": why or ("" if came_back else "no run came back"),
             "peer_samples": len(came_back), "peer_hangs": hangs,
             "note": f"peer: median of the {len(came_back)} runs that came back; {hangs} did not within {HANG_S} s" if peers else ""}

    def of(key):
        return [death[key] for death in deaths if death[key] is not None]

    # Of deaths that find the survivors computing it is near 0, of others the wait: the median lies between, and moves.
    bench.row("recovery/excess", "ms", of("excess"), goal=25, **interval(of("excess")))
    bench.row("recovery/total_p99", "ms", of("total"), value=percentile(of("total"), 0.99), goal=500, **known)
    bench.row("recovery/total", "ms", of("total"), **known)
    for phase in ("exited", "noticed", "aborted", "resumed", "computing", "joined"):
        bench.row("recovery/" + phase, "ms", of(phase))
