"""Writes the orders of PyTorch's own samplers, one a line, for sampler_test.cpp: sampler_golden.py FILE

distributed n replicas rank shuffle seed epoch drop_last : ids
dataloader|legacy n epochs state(hex) : ids of all epochs
"""
import itertools
import sys

import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def distributed(out):
    sizes, replicas = [1, 2, 3, 5, 7, 10, 64, 100, 1000], [1, 2, 3, 4, 5, 8, 16]
    cases = list(itertools.product(sizes, replicas, [True], [0, 1, 17, 2**40 + 17], [0, 1, 5], [False, True]))
    cases += itertools.product(sizes, replicas, [False], [0], [0, 3], [False, True])
    cases += [(60000, v, True, 0, e, False) for v in (1, 2, 4) for e in (0, 1)]
    for n, v, shuffle, seed, epoch, drop in cases:
        for rank in range(v):
            sampler = DistributedSampler(range(n), v, rank, shuffle=shuffle, seed=seed, drop_last=drop)
            sampler.set_epoch(epoch)
            print("distributed", n, v, rank, int(shuffle), seed, epoch, int(drop), ":", *sampler, file=out)


def state():
    return torch.default_generator.get_state().numpy().tobytes().hex()


def one_process(out):
    for n, seed, epochs in itertools.product([1, 10, 1000, 60000], [0, 17], [3]):
        torch.manual_seed(seed)
        torch.nn.Linear(3, 4)  # the state to start from is that after the model is made
        start = state()
        loader = DataLoader(range(n), batch_size=32, shuffle=True)
        ids = [i for _ in range(epochs) for batch in loader for i in batch.tolist()]
        print("dataloader", n, epochs, start, ":", *ids, file=out)
        torch.manual_seed(seed)
        torch.nn.Linear(3, 4)
        ids = []
        for _ in range(epochs):  # the loader of 2019, as docs/design/arithmetic.md states it
            torch.empty((), dtype=torch.int64).random_()
            ids += torch.randperm(n).tolist()
        print("legacy", n, epochs, start, ":", *ids, file=out)


with open(sys.argv[1], "w") as out:
    distributed(out)
    one_process(out)
