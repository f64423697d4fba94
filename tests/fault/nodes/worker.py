"""A worker that depends on all others and tells a witness outside of its life; the standard library alone.

    worker.py [--steps N] [--pace SECONDS] [--on-loss exit|hang] [--child] [--linger RANK:SECONDS|told] [--save SECONDS] [--by-store]

Meets the others at the store of MASTER_ADDR and MASTER_PORT, as programs of torch do, and makes a ring of TCP connections with them.
A step is a sum that goes round the ring, and its result after it. Without --steps it ends once /srv/finish is there. A rank that
lingers ends so much later, or once /srv/leave is there.
The witness (witness.py) listens at /srv/witness; a connection lasts as long as the worker.
"""
import argparse
import json
import os
import signal
import socket
import struct
import sys
import time

MAGIC = 0x3C85F7CE
VALIDATE, SET, GET, WAIT = 0, 1, 3, 6  # of src/store/protocol.h


def read(connection, size):
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the other side is gone")
        data += part
    return data


def text(value):
    return struct.pack("=Q", len(value)) + value


class Store:
    """Enough of a client of torch.distributed.TCPStore."""

    def __init__(self, address, port):
        self.connection = socket.create_connection((address, port), 30)
        self.connection.sendall(struct.pack("=BI", VALIDATE, MAGIC))

    def set(self, key, value):
        self.connection.sendall(bytes([SET]) + text(key.encode()) + text(value.encode()))

    def get(self, key):
        key = text(key.encode())
        self.connection.settimeout(None)  # whoever is late comes, or this worker is ended
        self.connection.sendall(bytes([WAIT]) + struct.pack("=Q", 1) + key)
        if read(self.connection, 1) != b"\0":
            raise ConnectionError("the store gave up the wait")
        self.connection.sendall(bytes([GET]) + key)
        return read(self.connection, struct.unpack("=Q", read(self.connection, 8))[0]).decode()

    def address(self):
        """Of this machine, as the store's machine reaches it."""
        address = self.connection.getsockname()[0]
        return f"{address}%{os.environ['GLOO_SOCKET_IFNAME']}" if address.startswith("fe80:") else address


class Ring:
    """This rank's connections from the one before it and to the one after it."""

    def __init__(self, store, rank, world):
        family = store.connection.family
        here = socket.getaddrinfo(store.address(), 0, family, socket.SOCK_STREAM)[0][4]
        listener = socket.create_server(here, family=family)
        store.set(f"ring/{rank}", json.dumps([store.address(), listener.getsockname()[1]]))
        self.after = socket.create_connection(json.loads(store.get(f"ring/{(rank + 1) % world}")), 30)
        self.before = listener.accept()[0]
        listener.close()
        for connection in (self.before, self.after):
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, *numbers):
        self.after.sendall(struct.pack("=3q", *numbers))

    def receive(self):
        return struct.unpack("=3q", read(self.before, 24))


class ByStore:
    """The same ring through the store's keys, for machines that let no other port through."""

    def __init__(self, store, rank, world):
        self.store, self.rank, self.before, self.sent, self.received = store, rank, (rank - 1) % world, 0, 0

    def send(self, *numbers):
        self.store.set(f"{self.rank}/{self.sent}", json.dumps(numbers))
        self.sent += 1

    def receive(self):
        self.received += 1
        return json.loads(self.store.get(f"{self.before}/{self.received - 1}"))


def own_value(rank, step):
    return (rank + 1) * (step + 7)


def run_step(ring, rank, world, step, last):
    """Whether this was the last; rank 0 decides."""
    total = own_value(rank, step)
    if rank > 0:
        _, total, _ = ring.receive()
        total += own_value(rank, step)
    ring.send(step, total, 0)
    said, total, last = ring.receive() if rank > 0 else (*ring.receive()[:2], int(last))
    ring.send(step, total, last)
    if rank == 0:
        ring.receive()
    expected = sum(own_value(other, step) for other in range(world))
    if (said, total) != (step, expected):
        raise AssertionError(f"step {step}: {total} of step {said}, not {expected}")
    return bool(last)


def fork_child(witness):
    """As a loader would; if its parent is killed, it dies by the launcher's hand alone."""
    pid = os.fork()
    if pid == 0:
        witness.close()
        signal.pause()
        os._exit(0)
    return pid


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--pace", type=float, default=0.04)
    parser.add_argument("--on-loss", choices=("exit", "hang"), default="exit")
    parser.add_argument("--child", action="store_true")
    parser.add_argument("--by-store", action="store_true")
    parser.add_argument("--linger", default="-1:0", help="this rank of the first attempt ends so much later")
    parser.add_argument("--save", type=float, help="at TERM: it takes so long, and ends well")
    given = parser.parse_args()
    witness = socket.socket(socket.AF_UNIX)
    witness.connect("/srv/witness")

    def tell(what, **more):
        witness.sendall(json.dumps({"what": what, **more}).encode() + b"\n")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    tell("start", rank=rank, world=world, attempt=int(os.environ["TORCHELASTIC_RESTART_COUNT"]), host=socket.gethostname(),
         environment=dict(os.environ), arguments=sys.argv)
    child = fork_child(witness) if given.child else None

    def save(*_):
        time.sleep(given.save)
        tell("end")
        sys.exit()
    if given.save:
        signal.signal(signal.SIGTERM, save)
    try:
        store = Store(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        ring, step, last = (ByStore if given.by_store else Ring)(store, rank, world), 0, False
        while not last:
            time.sleep(given.pace)
            last = run_step(ring, rank, world, step, step + 1 == given.steps if given.steps else os.path.exists("/srv/finish"))
            tell("step", step=step)
            step += 1
    except OSError as error:
        tell("loss", error=f"{type(error).__name__}: {error}")
        if given.on_loss == "hang":
            signal.pause()
        sys.exit(f"rank {rank} lost the others: {error}")
    tell("done")
    who, seconds = given.linger.split(":")
    if rank == int(who) and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        while seconds == "told" and not os.path.exists("/srv/leave"):
            time.sleep(0.01)
        time.sleep(0 if seconds == "told" else float(seconds))
    if child:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    tell("end")


if __name__ == "__main__":
    main()
