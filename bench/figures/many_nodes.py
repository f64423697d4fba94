"""The leader of 10 to 10,000 nodes of a plain program: what its rules and its codec cost it for one event, in CPU time.

Simulated: words take 0.1 to 0.3 ms, an agent that dies is back after 2 s, and TLS and the kernel's part are not included. A round's
answer is checked by itself: every event ends when all nodes have started their workers of the next attempt.
"""
import json

from figures.common import check, launch

EVENTS = {"form": "all agents come", "rest": "10 s of heartbeats", "worker": "a worker dies", "node": "an agent dies and comes back",
          "100 nodes": "100 do (of 10 nodes 9)", "leader": "the leader's agent does"}


def measure(bench):
    rounds = []
    for _ in range(1 if bench.quick else 3):
        bench.idle()
        out = launch([bench.program("nodes_bench"), "1000" if bench.quick else "10000"])
        rounds.append({(line["nodes"], line["event"]): line for line in map(json.loads, out.splitlines())})
    check(all(each.keys() == rounds[0].keys() for each in rounds), "rounds differ")
    for (nodes, event), line in rounds[0].items():
        words, size = line["words_in"] + line["words_out"], line["bytes_in"] + line["bytes_out"]
        bench.row(f"many_nodes/{nodes}/{event}", "ms", [each[nodes, event]["cpu_ms"] for each in rounds],
                  note=f"{EVENTS[event]}: {line['took_s']:.3f} s simulated; {words / nodes:.1f} words and {size / nodes:.0f} bytes a node")
