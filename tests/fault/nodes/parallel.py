"""Tests that wait more than they work: several at a time, each with machines of its own."""
import concurrent.futures
import sys
import time
import traceback
import unittest

import hosts
from nodes import LOCKSTEP, SEED


def flat(suite):
    for test in suite:
        yield from flat(test) if isinstance(test, unittest.TestSuite) else (test,)


def one(test):
    result, begun = unittest.TestResult(), time.monotonic()
    try:
        test.run(result)
    except BaseException:  # told as this test's; the others go on
        result.addError(test, sys.exc_info())
        traceback.print_exc()
    return test, result, time.monotonic() - begun


def prepare():
    """Ends the program with 77, skipped, where this system has no machines, or these could not see what they are to run."""
    hosts.enter()
    reason = hosts.missing()
    if path := hosts.covered(LOCKSTEP, __file__, sys.executable):
        reason = f"'{path}' is where a machine has a folder of its own: build elsewhere than in {', '.join(hosts.COVERED)}"
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)


def main(threads=6):
    """Like unittest.main(), after prepare()."""
    prepare()
    print(f"LOCKSTEP_FAULT_SEED={SEED}", flush=True)
    loader = unittest.TestLoader()
    names = sys.argv[1:]
    suite = loader.loadTestsFromNames(names, sys.modules["__main__"]) if names else loader.loadTestsFromModule(sys.modules["__main__"])
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for done in concurrent.futures.as_completed([pool.submit(one, test) for test in flat(suite)]):
            test, result, seconds = done.result()
            problems = result.failures + result.errors
            bad += bool(problems)
            said = "FAILED" if problems else f"skipped {result.skipped[0][1]!r}" if result.skipped else "ok"
            print(f"{test._testMethodName} ({test.id()}, {seconds:.1f} s) ... {said}", flush=True)
            for _, text in problems:
                print(text, flush=True)
    sys.exit(bad > 0)
