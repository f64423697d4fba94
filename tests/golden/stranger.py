#!/usr/bin/env python3
"""Trains seed 002's ConvNet as docs/design/arithmetic.md says, in one plain process, and prints the weights' hash.

Written from that page alone: it shares no code with Lockstep, starts no other process, and has one thread. Whatever
number of workers a Lockstep run had, and whatever happened to them, its last line is this script's last line.

    python3 stranger.py --data DIR --virtual-workers 5 --max-steps 20

Needs torch >= 2.11 and numpy. DIR holds MNIST's four IDX files, plain or gzip, flat or under MNIST/raw.
"""
import argparse
import gzip
import hashlib
import math
import os
import struct

import torch
from torch import nn


class ConvNet(nn.Module):
    """28,938 parameters. The order in which layers are made decides the initial values."""

    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.layer2 = nn.Sequential(nn.Conv2d(16, 32, 5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.fc = nn.Linear(7 * 7 * 32, 10)

    def forward(self, x):
        return self.fc(self.layer2(self.layer1(x)).flatten(1))


def read_idx(folder, name):
    """An IDX file (big-endian header) as a uint8 tensor."""
    for path in (os.path.join(folder, sub, name + end) for sub in ("", "MNIST/raw", "raw") for end in ("", ".gz")):
        if os.path.exists(path):
            with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
                raw = f.read()
            dims = struct.unpack(f">{raw[3]}I", raw[4:4 + 4 * raw[3]])
            return torch.frombuffer(bytearray(raw[4 + 4 * raw[3]:]), dtype=torch.uint8).reshape(dims)
    raise SystemExit(f"no {name} (plain or .gz) in {folder}, {folder}/raw or {folder}/MNIST/raw")


def read_mnist(folder):
    images = read_idx(folder, "train-images-idx3-ubyte").unsqueeze(1).float().div(255)
    return images, read_idx(folder, "train-labels-idx1-ubyte").long()


def epoch_order(samples, virtual_workers, epoch_seed):
    """Sample ids of each virtual worker: one permutation, padded by its own beginning, dealt out in turn."""
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(epoch_seed)).tolist()
    total = math.ceil(samples / virtual_workers) * virtual_workers
    padded = [order[i % samples] for i in range(total)]
    return [padded[v::virtual_workers] for v in range(virtual_workers)]


def legacy_order(samples):
    """One process, as PyTorch 1.2 did it: a base seed that nobody uses, then a permutation, both from the default generator."""
    torch.empty((), dtype=torch.int64).random_()
    return [torch.randperm(samples).tolist()]


def batches(args, samples):
    """Yields (epoch, step in epoch, steps per epoch, of each virtual worker the ids of its batches)."""
    for epoch in range(args.epochs):
        if args.shuffle == "legacy":
            mine = legacy_order(samples)
        else:
            mine = epoch_order(samples, args.virtual_workers, args.seed + (epoch if args.shuffle == "reshuffle" else 0))
        cut = [[ids[i:i + args.batch_size] for i in range(0, len(ids), args.batch_size)] for ids in mine]
        several = args.accumulation_steps
        steps = math.ceil(len(cut[0]) / several)
        for i in range(steps):
            yield epoch, i, steps, [own[i * several:(i + 1) * several] for own in cut]


def tree_sum(parts):
    """Neighbours are added, level by level; who has no neighbour on the right goes up as it is."""
    while len(parts) > 1:
        parts = [torch.add(parts[i], parts[i + 1]) if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
    return parts[0]


class Update:
    """The optimizer's formulas. State starts as zeros; momentum's buffer as a copy of the first gradient."""

    def __init__(self, args, model):
        # (rate, weight decay) of each parameter: the classifier's may be a group of their own.
        first, second = (args.lr, args.weight_decay), (args.fc_lr or args.lr, args.fc_weight_decay or args.weight_decay)
        named = list(model.named_parameters())
        self.groups = [second if name.startswith("fc.") else first for name, _ in named]
        parameters = [p for _, p in named]
        self.args, self.parameters, self.t = args, parameters, 0
        self.m = [torch.zeros_like(p) for p in parameters]
        self.v = [torch.zeros_like(p) for p in parameters]

    @torch.no_grad()
    def step(self, gradients):
        self.t += 1
        if self.args.clip_grad_norm:
            gradients = self.clipped(gradients)
        for i, (p, g) in enumerate(zip(self.parameters, gradients)):
            self.sgd(i, p, g) if self.args.optimizer == "sgd" else self.adam(i, p, g)

    def clipped(self, gradients):
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g, 2.0) for g in gradients]), 2.0)
        factor = torch.clamp((norm + 1e-6).reciprocal() * self.args.clip_grad_norm, max=1.0)
        return [g.mul(factor) for g in gradients]

    def sgd(self, i, p, g):
        if self.args.momentum:
            self.m[i] = g.clone() if self.t == 1 else self.m[i].mul_(self.args.momentum).add_(g)
            g = self.m[i]
        p.add_(g, alpha=-self.groups[i][0])

    def adam(self, i, p, g, b1=0.9, b2=0.999, eps=1e-8):
        lr, decay = self.groups[i]
        if self.args.optimizer == "adamw" and decay:
            p.mul_(1 - lr * decay)
        self.m[i].lerp_(g, 1 - b1)
        self.v[i].mul_(b2).addcmul_(g, g, value=1 - b2)
        c1, c2 = 1 - b1 ** self.t, 1 - b2 ** self.t
        p.addcdiv_(self.m[i], (self.v[i].sqrt() / c2 ** 0.5).add_(eps), value=-(lr / c1))


def share(model, start_buffers, images, labels, batches):
    """One virtual worker's part of a step: its loss, its gradients, and the buffers it leaves."""
    for buffer, start in zip(model.buffers(), start_buffers):
        buffer.copy_(start)
    model.zero_grad(set_to_none=True)
    total = samples = 0
    for ids in batches:
        loss = nn.functional.cross_entropy(model(images[ids]), labels[ids])
        (loss / len(batches) if len(batches) > 1 else loss).backward()
        total += loss.item() * len(ids)
        samples += len(ids)
    return total / samples, [p.grad for p in model.parameters()], [b.clone() for b in model.buffers()]


def weights_sha256(model):
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def train(args, model, images, labels, on_step):
    """Runs the whole job; on_step(number, epoch, step in epoch, steps per epoch, virtual worker 0's loss, ids)."""
    update = Update(args, model)
    for number, (epoch, i, steps, ids) in enumerate(batches(args, len(images))):
        if args.max_steps and number >= args.max_steps:
            return
        start = [b.clone() for b in model.buffers()]
        shares = [share(model, start, images, labels, own) for own in ids]
        mean = [tree_sum(list(parts)).mul(1 / args.virtual_workers) for parts in zip(*(s[1] for s in shares))]
        update.step(mean)
        for buffer, new in zip(model.buffers(), shares[0][2]):
            buffer.copy_(new)
        on_step(number, epoch, i, steps, shares[0][0], ids)


def arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--virtual-workers", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--max-steps", type=int, default=0, help="0: all epochs")
    parser.add_argument("--batch-size", type=int, default=100, help="of each virtual worker")
    parser.add_argument("--accumulation-steps", type=int, default=1, help="batches of each virtual worker per optimizer step")
    parser.add_argument("--optimizer", choices=["sgd", "adam", "adamw"], default="sgd")
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--weight-decay", type=float, default=0.0, help="adamw's")
    parser.add_argument("--fc-lr", type=float, default=0.0, help="the last layer's, a group of its own; 0: as the others")
    parser.add_argument("--fc-weight-decay", type=float, default=0.0, help="the same")
    parser.add_argument("--clip-grad-norm", type=float, default=0.0, help="0: none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shuffle", choices=["distributed", "reshuffle", "legacy"], default="distributed")
    parser.add_argument("--log-every", type=int, default=100)
    parser.add_argument("--losses", action="store_true", help="print each step's loss, exact, in hexadecimal")
    args = parser.parse_args(argv)
    if args.shuffle == "legacy" and args.virtual_workers != 1:
        parser.error(f"--shuffle legacy is an order for one process: --virtual-workers {args.virtual_workers} must be 1")
    return args


def main():
    args = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    model = ConvNet()
    images, labels = read_mnist(args.data)

    def report(number, epoch, i, steps, loss, ids):
        if args.losses:
            print(f"step {number} loss {loss.hex()}")
        if (i + 1) % args.log_every == 0:
            print(f"Epoch [{epoch + 1}/{args.epochs}], Step [{i + 1}/{steps}], Loss: {loss:.4f}", flush=True)

    train(args, model, images, labels, report)
    print("weights sha256", weights_sha256(model))


if __name__ == "__main__":
    main()
