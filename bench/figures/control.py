"""The control plane of a linked program's run on 10 to 1,000 hosts: what one event costs the agent that leads, in CPU time.

Simulated, with the project's own agents, keepers, rounds and their bytes: words take 0.1 to 0.3 ms; TLS, the kernel's part and links
are not included. A round's answer is checked by itself: every event ends when all hosts that live have applied the next transaction.
"""
import json

from figures.common import check, launch

EVENTS = {"form": "all agents come", "rest": "10 s of heartbeats and steps of 0.4 s", "host": "a host dies", "leader": "the leader's host dies",
          "100 hosts": "100 hosts die at once"}


def measure(bench):
    rounds = []
    for _ in range(1 if bench.quick else 3):
        bench.idle()
        out = launch([bench.program("control_bench")])
        rounds.append({(line["hosts"], line["event"]): line for line in map(json.loads, out.splitlines())})
    check(all(each.keys() == rounds[0].keys() for each in rounds), "rounds differ")
    for (hosts, event), line in rounds[0].items():
        bench.row(f"control/{hosts}/{event}", "ms", [each[hosts, event]["leader_cpu_ms"] for each in rounds],
                  note=f"{EVENTS[event]}: {line['took_s']:.3f} s simulated; {line['words'] / hosts:.1f} words and {line['bytes'] / hosts:.0f} bytes a "
                       f"host; the state is said {line['states'] / hosts:.1f} times, {line['state_bytes'] / hosts:.0f} bytes in all; a host's own CPU time {line['host_cpu_ms']:.3g} ms")
