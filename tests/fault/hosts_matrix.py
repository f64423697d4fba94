#!/usr/bin/env python3
"""The matrix of faults over several hosts: linked programs on two to four launchers of this machine, with unequal numbers of workers.
Weights, optimizer state, ledger and metrics of each host that stays are those of one host, exit codes are as
docs/guide/many_nodes.md says, nothing is left behind, and nothing hangs.

    hosts_matrix.py [--draw SECONDS] [--seed S] [--only WORD] [--jobs J] [--list]    (environment: harness.py)

All cases, or with --draw those that come first in an order that the seed gives, for so long. Exit 77: skipped, no namespaces here.
"""
import argparse
import concurrent.futures
import functools
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback

import harness
from hosts_faults import (undisturbed_run, kill_workers, kill_one_of_each, kill_newcomers, kill_only_worker, kill_host, kill_host_in_heal,
                          kill_host_at_start, kill_host_before_all_are_there, kill_two_hosts, kill_two_hosts_in_turn,
                          kill_two_hosts_then_one_more, crash_everybody, link_fault, pause, pause_beyond_the_end, pause_briefly, kill_everything,
                          kill_most, terminate, terminate_while_one_is_lost, kill_only_worker_as_it_stops, kill_all_workers,
                          lost_before_a_new_start, older_state)
from hosts_group import Group
from hosts_programs import convnet, language_model, unused, updates, wanted

QUICK = ("--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=2")  # L: 2 s
PHASES = ("data", "forward", "backward", "exchange", "optimizer")
LAYOUTS = {"1+1": (1, 1), "3+1": (3, 1), "2+1+2": (2, 1, 2), "2+1+1": (2, 1, 1), "2+2+2": (2, 2, 2), "1+2+1+1": (1, 2, 1, 1), "1+1+1+1": (1, 1, 1, 1)}


def cases():
    """Each a name, a program, a layout, further options, and what happens."""
    def case(name, program, layout, what, options=(), **more):
        return f"{name} {program.__name__} {layout}", program, layout, options, functools.partial(what, **more)

    for program in (convnet, language_model):
        for layout in ("1+1", "3+1", "2+1+2", "1+2+1+1"):
            yield case("undisturbed", program, layout, undisturbed_run)
        for layout in ("3+1", "2+1+2"):
            yield case("workers killed", program, layout, kill_workers)
            yield case("workers killed again", program, layout, kill_workers, rounds=5)
        yield case("host killed in heal of another", program, "2+1+2", kill_host_in_heal, rank=1, newcomer=2)
        yield case("all killed", program, "2+1+2", kill_everything)
        yield case("most killed", program, "2+1+2", kill_most, QUICK)
        yield case("all workers killed", program, "2+1+2", kill_all_workers, ("--max-restarts", 1))
        yield case("lost before a new start", program, "1+2+1+1", lost_before_a_new_start, ("--max-restarts", 1))
        yield case("older state", program, "1+2+1+1", older_state)
        for number in (signal.SIGKILL, signal.SIGSTOP):
            for rank in (0, 2):
                yield case(f"link {number.name} host {rank}", program, "2+1+2", link_fault, rank=rank, number=number)
        for rank in (0, 1):
            yield case(f"SIGTERM host {rank}", program, "2+1+2", terminate, rank=rank, number=signal.SIGTERM)
        yield case("SIGTERM while host 2 is lost", program, "2+1+2", terminate_while_one_is_lost, QUICK, rank=2)
        for rank in (0, 1, 2):
            yield case(f"agent paused host {rank}", program, "2+1+2", pause, QUICK, rank=rank, whole=False)
            yield case(f"host paused host {rank}", program, "2+1+2", pause, QUICK, rank=rank, whole=True)
            yield case(f"host paused beyond the end host {rank}", program, "2+1+2", pause_beyond_the_end, QUICK, rank=rank)
            yield case(f"host paused briefly host {rank}", program, "2+1+2", pause_briefly, rank=rank)
            yield case(f"host killed in heal host {rank}", program, "2+1+2", kill_host_in_heal, rank=rank, newcomer=2 if rank == 0 else 0)
            yield case(f"host killed at start host {rank}", program, "2+1+2", kill_host_at_start, rank=rank)
            yield case(f"host killed at its end host {rank}", program, "2+1+2", kill_host, rank=rank, phase="done", txn=None)
        yield case("host killed in its own heal", program, "2+1+2", kill_host_in_heal, rank=2, newcomer=2)
        yield case("host killed before all are there", program, "2+1+2", kill_host_before_all_are_there, rank=1)
        for pair in ((1, 2), (2, 3), (1, 3)):
            yield case(f"two hosts killed {pair}", program, "1+2+1+1", kill_two_hosts, pair=pair)
        for pair in ((1, 2), (2, 3), (1, 3), (0, 1), (0, 3)):
            yield case(f"two hosts killed in turn {pair}", program, "1+2+1+1", kill_two_hosts_in_turn, pair=pair)
        for third in (0, 3):
            yield case(f"two hosts killed, then host {third}", program, "1+2+1+1", kill_two_hosts_then_one_more, pair=(1, 2), third=third)
        yield case("a share crashes everybody", program, "1+1+1+1", crash_everybody)
    for coming in ("heal", "exchange", "optimizer"):
        for own in PHASES:
            program, layout = (convnet, "2+1+2") if own in ("data", "forward") else (language_model, "3+1")
            yield case(f"newcomers killed in {coming} and {own}", program, layout, kill_newcomers, coming=coming, own=own)
    for phase in PHASES:
        for program in (convnet, language_model):
            yield case(f"one of each host killed in {phase}", program, "2+2+2", kill_one_of_each, phase=phase)
        yield case(f"only worker killed as the run stops in {phase}", language_model, "2+1+1", kill_only_worker_as_it_stops, rank=1, phase=phase)
        for rank in (0, 1):
            yield case(f"only worker killed in {phase} host {rank}", convnet, "1+1", kill_only_worker, rank=rank, phase=phase)
        for program, layout, ranks in ((convnet, "2+1+2", (0, 1, 2)), (language_model, "1+2+1+1", (0, 1, 3)),
                                       (updates, "2+1+1", (0, 1, 2)), (unused, "1+1+1+1", (0, 1, 3))):
            for rank in ranks:
                for txn in (0, 12):
                    if (program, txn) != (unused, 0):
                        yield case(f"host killed in {phase} {txn} host {rank}", program, layout, kill_host, rank=rank, phase=phase, txn=txn)
    for rank in (0, 1, 2):
        for txn in (10, 14, 44):
            yield case(f"host killed in evaluate {txn} host {rank}", convnet, "2+1+2", kill_host, rank=rank, phase="evaluate", txn=txn)
    for program in (updates, unused):
        yield case("undisturbed", program, "2+1+1", undisturbed_run)
        yield case("undisturbed", program, "1+1+1+1", undisturbed_run)
        yield case("workers killed", program, "2+1+1", kill_workers, at=8)
        yield case("newcomers killed", program, "2+1+1", kill_newcomers, coming="heal", own="data")
        yield case("all killed", program, "2+1+1", kill_everything, at=8)
        yield case("host killed at its end", program, "2+1+1", kill_host, rank=2, phase="done", txn=None)


def play(number, case):
    name, program, layout, options, what = case
    reference, begun = wanted(program), time.monotonic()
    group = Group(f"case{number}", LAYOUTS[layout], program, (*options, "--max-replacements", 99))
    try:
        codes, stay = what(group)
        group.expect(codes)
        group.check_told()
        group.expect_exact([rank for rank in stay if not group.ended_without(rank)], reference)
    except Exception as error:
        said = str(error) if isinstance(error, AssertionError) and str(error) else traceback.format_exc()
        print(f"FAILED: {name}, in {group.folder} ({time.monotonic() - begun:.1f} s)\n{said}", flush=True)
        return False
    finally:
        group.end()
    print(f"{name}: as it should be, {time.monotonic() - begun:.1f} s", flush=True)
    shutil.rmtree(group.folder)
    return True


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--draw", type=float, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=harness.SEED)
    parser.add_argument("--only", default="", metavar="WORD", help="of the name of a case")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    chosen = [case for case in cases() if given.only in case[0]]
    if given.list:
        print("\n".join(case[0] for case in chosen))
        return
    if why_not := harness.enter_namespaces() if shutil.which("ip") else "there is no ip (package iproute2) on this system":
        print(f"skipped: {why_not}")
        sys.exit(77)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    harness.write_idx(harness.scratch() / "hosts", *harness.MANY)
    if given.draw:
        random.Random(given.seed).shuffle(chosen)
        print(f"seed {given.seed}", flush=True)
    for program in {case[1] for case in chosen}:
        wanted(program)
    begun = time.monotonic()

    def one(numbered):
        return play(*numbered) if not given.draw or time.monotonic() - begun < given.draw else None
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        ended = list(pool.map(one, enumerate(chosen)))
    print(f"{ended.count(True)} as they should be, {ended.count(False)} not, of {len(chosen)} cases, in {time.monotonic() - begun:.0f} s")
    sys.exit(False in ended or True not in ended)


if __name__ == "__main__":
    main()
