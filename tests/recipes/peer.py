"""What the recipes' peers in stock PyTorch share: ranks over Gloo on the CPU (PEER_RANKS of them, two unless it says otherwise), DDP, and
what is compared.

Two addends have one sum. Of more ranks DDP takes the sum of docs/design/arithmetic.md, by a communication hook.
"""
import hashlib
import json
import os
import pathlib
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import ranks  # noqa: E402
from stranger import tree_sum  # noqa: E402

RANKS = int(os.environ.get("PEER_RANKS", 2))

# Whole lines, several ranks' in one pipe: under PYTHONUNBUFFERED print() writes a line's end apart.
sys.stdout = open(1, "w", closefd=False)


def sum_of_the_page(_, bucket):
    parts = [torch.empty_like(bucket.buffer()) for _ in range(RANKS)]
    dist.all_gather(parts, bucket.buffer())
    done = torch.futures.Future()
    done.set_result(tree_sum(parts).mul(1 / RANKS))
    return done


def DDP(model):
    model = DistributedDataParallel(model)
    if RANKS > 2:
        model.register_comm_hook(None, sum_of_the_page)
    return model


def spawn(train, *arguments):
    """train(rank, *arguments) in each rank; it gives back its losses, which go to losses.json as hexadecimal numbers."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    # Forked: libtorch is imported once, and no thread is there yet.
    mp.start_processes(begin, (port, train, arguments), RANKS, start_method="fork")


def begin(rank, port, train, arguments):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    losses = gathered([loss.hex() for loss in train(rank, *arguments)])
    if rank == 0:
        with open("losses.json", "w") as file:
            json.dump(losses, file)
    ranks.leave()


def gathered(value):
    """By rank."""
    values = [None] * RANKS
    dist.all_gather_object(values, value)
    return values


def say_weights(model):
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
    print("weights sha256", digest.hexdigest(), flush=True)
