"""Runs of plain programs over several machines, and what has to hold of them. `lockstep run` in each machine of a bed (tests/support/
hosts), workers that depend on each other (worker.py), and a witness outside (witness.py) who sees that no two attempts overlap.

LOCKSTEP_PROGRAM     the launcher (set by CTest)
LOCKSTEP_FAULT_SEED  seed of the random moments; default: a new one each time, printed
"""
import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
SEED = int(os.environ.get("LOCKSTEP_FAULT_SEED", random.SystemRandom().randrange(1 << 32)))
LOCKSTEP = os.environ["LOCKSTEP_PROGRAM"]
