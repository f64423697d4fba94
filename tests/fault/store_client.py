"""A worker of three under `lockstep run`: every operation of torch.distributed.TCPStore's client, at the launcher's store and at one
that PyTorch serves itself (by rank 0, on another port), has the same outcome. Then a process group over env://."""
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ADDRESS, PORT = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
LIMIT = timedelta(seconds=60)
SHORT = timedelta(milliseconds=300)


def client(port, serve=False):
    return dist.TCPStore(ADDRESS, port, None, serve, LIMIT, wait_for_workers=False)


def outcome(call, *arguments):
    try:
        return call(*arguments)
    except Exception as error:  # which one it is, is the outcome
        return type(error).__name__


def alone(store, port):
    """What one client is told."""
    said = []

    def do(name, *arguments):
        said.append((name, outcome(getattr(store, name), *arguments)))

    do("has_extended_api")
    for value in ("text", "", b"\x00\xff\n".decode("latin-1"), "x" * 1_000_000, "y" * (8 << 20)):
        do("set", "value", value)
        do("get", "value")
    do("set", "", "of an empty name")
    do("get", "")
    do("set", "k" * 8000, "of a long name")
    do("get", "k" * 8000)
    for more in (5, -7, 0, 1 << 40):
        do("add", "count", more)
    do("get", "count")
    do("set", "count", "41 and more")
    do("add", "count", 1)
    for key, expected, desired in (("cas", "x", "1"), ("cas", "", "2"), ("cas", "3", "4"), ("cas", "2", "5"), ("new", "", "")):
        do("compare_set", key, expected, desired)
        do("check", [key])
    do("append", "list", "a")
    do("append", "list", "b" * 3000)
    do("get", "list")
    do("multi_set", ["m1", "m2", "m3"], ["1", "", "3"])
    do("multi_get", ["m3", "m1", "m2", "m1"])
    do("multi_get", [])
    for keys in ([], ["m1"], ["m1", "cas", "list"], ["m1", "none"], ["none"]):
        do("check", keys)
    do("num_keys")
    for key in ("m1", "m1", "none"):
        do("delete_key", key)
    do("num_keys")
    said.append(("list_keys", sorted(store.list_keys())))
    do("wait", ["m2", "m3"])
    do("wait", [])
    do("wait", ["m2", "none"], SHORT)
    do("wait", ["none"], SHORT)  # after a cancelled one
    do("queue_pop", "queue", False)
    do("queue_len", "queue")
    for value in ("first", "", "third"):
        do("queue_push", "queue", value)
    do("queue_len", "queue")
    do("check", ["queue"])
    do("wait", ["queue"])
    do("num_keys")
    for _ in range(4):
        do("queue_pop", "queue", False)
    store.set_timeout(SHORT)
    do("get", "none")
    do("multi_get", ["m2", "none"])
    do("queue_pop", "queue", True)
    store.set_timeout(LIMIT)
    prefixed = dist.PrefixStore("p", store)
    prefixed.set("key", "of a prefix")
    do("get", "p/key")
    copy = store.clone()
    said.append(("clone", copy.get("value") == store.get("value")))
    # What costs a client its connection costs nobody else anything.
    for wrong in (lambda other: other.add("list", 1), lambda other: (other.set("large", "z" * ((8 << 20) + 1)), other.num_keys()),
                  lambda other: (other.set("k" * 9000, ""), other.num_keys())):
        said.append(("wrong", isinstance(outcome(wrong, client(port)), str)))
        do("check", ["large"])
        do("num_keys")
    return said


def meet(store, point):
    store.add(point, 1)
    store.set(f"{point}/{RANK}", "here")
    store.wait([f"{point}/{rank}" for rank in range(WORLD)])
    return store.get(point)


def together(store):
    """What several are told by what others do."""
    said = [meet(store, "begin")]
    if RANK == 0:
        time.sleep(0.3)  # so that the others wait already
        store.set("late", "1")
        store.add("later", 1)
        store.append("last", "1")
        store.compare_set("swapped", "", "1")
    else:
        store.wait(["late", "later", "last", "swapped"])
    said.append(meet(store, "awaited"))
    if RANK == 0:
        time.sleep(0.3)
        for value in ("a", "b"):
            store.queue_push("work", value)
    else:
        store.set(f"got/{RANK}", store.queue_pop("work", True))
    said.append(meet(store, "popped"))
    said.append(sorted(store.multi_get(["got/1", "got/2"])))
    said.append(store.queue_len("work"))
    return said


def main():
    assert os.environ["TORCHELASTIC_USE_AGENT_STORE"] == "True"
    ours = client(PORT)
    if RANK == 0:
        theirs = client(0, True)
        for store in (ours, theirs):
            store.set("port", str(theirs.port))
    else:
        theirs = client(int(ours.get("port")))
    if RANK == 0:
        mine, peers = alone(ours, PORT), alone(theirs, theirs.port)
        for here, there in zip(mine, peers, strict=True):
            assert here == there, f"here {str(here)[:300]}, PyTorch's store {str(there)[:300]}"
        print(len(mine), "outcomes alike", flush=True)
        theirs.set("alone is over", "")
    theirs.wait(["alone is over"])
    assert together(ours) == together(theirs)
    meet(ours, "PyTorch's store is read")  # it ends with rank 0's object
    del theirs

    dist.init_process_group("gloo")
    number = torch.tensor([RANK + 1.0])
    dist.all_reduce(number)
    assert number.item() == 6
    objects = ["from rank 0" if RANK == 0 else None]
    dist.broadcast_object_list(objects)
    assert objects == ["from rank 0"]
    dist.barrier()
    dist.monitored_barrier()
    if RANK > 0:
        group = dist.new_group([1, 2], use_local_synchronization=True)
        dist.all_reduce(number, group=group)
        assert number.item() == 12
    dist.barrier()
    dist.destroy_process_group()
    print("well", flush=True)


main()
