"""Machines on one machine: namespaces on a switch, each with an address, a host name, names, processes, a clock and /tmp of its own.

    with hosts.Bed(3) as bed:
        job = bed[1].start("lockstep", "run", ...)
        bed.cut([1], [2, 3])

Nothing outlives who made it: each machine's first process ends with the pipe to its maker, and the kernel ends the rest with it. (One
exception: a maker killed while a machine is paused leaves the stopped nsenter of what it had started there.)
Needs Linux, util-linux, iproute2 and nftables, and root or user namespaces (`enter`); `missing` says what is not there. Kernels of
test machines as a rule have no netem: there are rates, losses and cuts, but no delays. ../machines is the same as a command.
"""
from hosts.bed import Bed, covered, enter, missing
from hosts.machine import Machine
from hosts.namespaces import COVERED, Missing, Process, state_of

__all__ = ["COVERED", "Bed", "Machine", "Missing", "Process", "covered", "enter", "missing", "state_of"]
