"""The programs of the matrix over several hosts: given the run directory, the words of each.

Transactions of convnet: ten steps, an evaluation, three steps, the epoch's end with one; of the others an epoch's end follows each 12
and 60 steps.
"""
import pathlib

import harness
from harness import built, once, undisturbed


def convnet(output, data=None):
    """`data`: where it is for who runs it."""
    data = data or harness.scratch() / "hosts"
    options = ("--data", data, "--optimizer", "adam", "--lr", 0.001, "--momentum", 0, "--opt-level", "O1", "--half-dtype", "bf16",
               "--batch-size", 4, "--test-batch-size", harness.MANY_BATCH, "--epochs", 3, "--evaluate-every", "10ba", "--checkpoint-every", 5,
               "--output", output)
    return [harness.CONVNET, *harness.merged(harness.BASE, options)]


def language_model(output):
    return [built("language_model"), "--virtual-workers", 8, "--epochs", 2, "--pieces", 480, "--log-every", 0, "--checkpoint-every", 10,
            "--output", output]


def updates(output):
    return [built("updates_worker"), "slow", output, 8]


def unused(output):
    return [built("phases_worker"), "unused", output, 24]


def held(output):
    """Its workers end once they may."""
    return [built("updates_worker"), "slow-held", output]


def large(output):
    """Its state has 40 MB."""
    return [built("updates_worker"), "slow-large", output, 6]


def may_end(output):
    pathlib.Path(f"{output}.go").touch()


@once
def wanted(program):
    def alone(output):
        may_end(output)
        return list(map(str, program(output)))
    return undisturbed(program=alone)
