#!/usr/bin/env python3
"""examples/ddp_loop in Python, with stock torch.distributed over Gloo: prints `weights sha256 HEX`.

    ddp_loop.py --data DIR --ranks 2 [--max-steps 40] [--accumulate 2] [--batch-size 100]
"""
import argparse
import hashlib
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

import ranks
from stranger import read_mnist


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(784, 128)
        self.scores = nn.Linear(128, 10)

    def forward(self, images):
        return self.scores(F.relu(self.hidden(images.flatten(1))))


def train(rank, args, rendezvous):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=args.ranks)
    images, labels = read_mnist(args.data)
    sampler = DistributedSampler(range(len(images)), num_replicas=args.ranks, rank=rank)
    torch.manual_seed(0)
    ddp = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9, foreach=False)
    ids = list(sampler)
    for step in range(1, args.max_steps + 1):
        batch = ids[(step - 1) * args.batch_size:step * args.batch_size]
        loss_of = lambda: F.cross_entropy(ddp(images[batch]), labels[batch]) / args.accumulate  # noqa: E731
        if step % args.accumulate != 0:
            with ddp.no_sync():
                loss_of().backward()
            continue
        loss_of().backward()
        optimizer.step()
        optimizer.zero_grad()
    if rank == 0:
        digest = hashlib.sha256()
        for name, tensor in sorted(ddp.module.state_dict().items()):
            digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
        print("weights sha256", digest.hexdigest(), flush=True)
    dist.barrier()
    ranks.leave()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--max-steps", type=int, default=40)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=100)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        mp.spawn(train, (args, f"{scratch}/rendezvous"), nprocs=args.ranks)


if __name__ == "__main__":
    main()
