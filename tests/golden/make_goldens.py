#!/usr/bin/env python3
"""Golden values made by stock PyTorch on the machine that runs the test, for seed 002's ConvNet on MNIST.

    make_goldens.py --data DIR --cache DIR [--kinds initial,v1,v2,ddp,one_gpu] [--epochs N]

kind      made by                                                                 holds
initial   one process, one step at learning rate 0                                hash (initial parameters, buffers after a step)
v1        one process, DistributedSampler of 1 replica, set_epoch each epoch      ids of 3 steps, losses, hash after 620 steps
v2        stock DistributedDataParallel, Gloo, 2 processes, set_epoch             the same, rank 0's, after 320 steps
ddp       the arithmetic page (stranger.py), 4 virtual workers, never set_epoch   the lines of N epochs, and the hash
one_gpu   one process, the data order of PyTorch 1.2                              the lines of N epochs, and the hash

Losses are exact (hexadecimal); each file is JSON and its name carries torch's version, the CPU's capability and the thread
count, because bits depend on them. A file that exists is not made again. Prints each file's path.
Everything runs on one thread.
"""
import argparse
import json
import os
import sys
import tempfile

import torch
import torch.multiprocessing as mp
from torch import distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler

import ranks
import stranger

THREADS = 1
STEPS = {"initial": 1, "v1": 620, "v2": 320}  # past the first epoch's end (600 and 300 steps)


class Digits(torch.utils.data.Dataset):
    """Each item also says its id, so that the order which the loader really delivers can be recorded."""

    def __init__(self, folder):
        self.images, self.labels = stranger.read_mnist(folder)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.labels[i], i


def fresh_model():
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    return stranger.ConvNet()


def stock_loop(net, model, loader, lr, max_steps, new_epoch):
    """The tutorial's own loop, with stock optimizer, loss and loader."""
    loss_fn, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr)
    losses, ids, epoch = [], [], 0
    while True:
        new_epoch(epoch)
        for x, y, i in loader:
            loss = loss_fn(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            ids += [i.tolist()] if len(ids) < 3 else []
            if len(losses) == max_steps:
                return {"steps": max_steps, "ids": ids, "losses": [v.hex() for v in losses],
                        "sha256": stranger.weights_sha256(net)}
        epoch += 1


def sampled(folder, world, rank, model, net, lr, steps):
    data = Digits(folder)
    sampler = DistributedSampler(data, world, rank, shuffle=True, seed=0)
    return stock_loop(net, model, DataLoader(data, 100, sampler=sampler), lr, steps, sampler.set_epoch)


def one_process(folder, lr, steps):
    net = fresh_model()
    return sampled(folder, 1, 0, net, net, lr, steps)


def ddp_rank(rank, folder, meeting, out):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    net = fresh_model()
    result = sampled(folder, 2, rank, nn.parallel.DistributedDataParallel(net), net, 1e-4, STEPS["v2"])
    everyone = [None, None]
    dist.all_gather_object(everyone, result["ids"])
    if rank == 0:
        result["ids"] = [list(step) for step in zip(*everyone)]
        write(out, result)
    ranks.leave()


def two_ranks(folder):
    with tempfile.TemporaryDirectory() as scratch:
        out = os.path.join(scratch, "result.json")
        mp.spawn(ddp_rank, (folder, os.path.join(scratch, "meeting"), out), nprocs=2)
        with open(out) as f:
            return json.load(f)


def line(epoch, step, steps, loss):
    return f"Epoch [{epoch + 1}/10], Step [{step}/{steps}], Loss: {loss:.4f}"


def four_gpu_lines(folder, epochs):
    net, lines = fresh_model(), []
    args = stranger.arguments(["--data", folder, "--virtual-workers", "4", "--epochs", str(epochs)])

    def on_step(number, epoch, i, steps, loss, ids):
        if (i + 1) % 50 == 0:
            lines.append(line(epoch, i + 1, steps, loss))

    stranger.train(args, net, *stranger.read_mnist(folder), on_step)
    return {"lines": lines, "sha256": stranger.weights_sha256(net)}


def one_gpu_lines(folder, epochs):
    """Stock model, loss and optimizer; the order is PyTorch 1.2's (see arithmetic.md, "legacy")."""
    net, lines = fresh_model(), []
    images, labels = stranger.read_mnist(folder)
    loss_fn, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), 1e-4)
    for epoch in range(epochs):
        torch.empty((), dtype=torch.int64).random_()
        for i, ids in enumerate(torch.randperm(len(images)).split(100)):
            loss = loss_fn(net(images[ids]), labels[ids])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if (i + 1) % 100 == 0:
                lines.append(line(epoch, i + 1, 600, loss.item()))
    return {"lines": lines, "sha256": stranger.weights_sha256(net)}


def write(path, value):
    """Whole or not at all."""
    with open(path + f".{os.getpid()}", "w") as f:
        json.dump(value, f)
    os.replace(path + f".{os.getpid()}", path)


def make(kind, folder, epochs):
    if kind == "initial":
        return one_process(folder, 0.0, STEPS[kind])
    if kind == "v1":
        return one_process(folder, 1e-4, STEPS[kind])
    if kind == "v2":
        return two_ranks(folder)
    return (four_gpu_lines if kind == "ddp" else one_gpu_lines)(folder, epochs)


def golden_path(cache, kind, epochs):
    machine = f"torch-{torch.__version__}_{torch.backends.cpu.get_cpu_capability()}_{THREADS}thread"
    return os.path.join(cache, f"{machine}_{kind}{'' if kind in STEPS else f'-{epochs}epochs'}.json")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--kinds", default="initial,v1,v2,ddp,one_gpu")
    parser.add_argument("--epochs", type=int, default=1, help="of ddp and one_gpu; the document has 10 and (of its print) 4")
    args = parser.parse_args()
    os.makedirs(args.cache, exist_ok=True)
    for kind in args.kinds.split(","):
        path = golden_path(args.cache, kind, args.epochs)
        if not os.path.exists(path):
            print(f"making golden '{kind}' with torch {torch.__version__}", file=sys.stderr)
            write(path, make(kind, args.data, args.epochs))
        print(path)


if __name__ == "__main__":
    main()
