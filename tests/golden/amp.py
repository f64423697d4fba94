#!/usr/bin/env python3
"""Mixed precision with torch.autocast and torch.amp.GradScaler, for tests/e2e/amp_run.cpp: the stranger's shares and sums, PyTorch's
own scaler, clipping and SGD. Prints each step's loss and the scale after it, then the weights' hash.

    python3 amp.py --data DIR --virtual-workers 3 --max-steps 12 --precision bf16 --init-scale 65536 --growth-interval 4
"""
import argparse

import torch
from torch import nn

import stranger

DTYPES = {"fp32": torch.bfloat16, "bf16": torch.bfloat16, "fp16": torch.float16}


def share(model, start_buffers, images, labels, args, scaler):
    for buffer, start in zip(model.buffers(), start_buffers):
        buffer.copy_(start)
    model.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=DTYPES[args.precision], enabled=args.precision != "fp32"):
        loss = nn.functional.cross_entropy(model(images), labels)
    scaler.scale(loss).backward()
    return loss.item(), [p.grad for p in model.parameters()], [b.clone() for b in model.buffers()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--virtual-workers", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--max-steps", type=int, default=12)
    parser.add_argument("--precision", choices=DTYPES, default="fp32")
    parser.add_argument("--init-scale", type=float, default=0.0)
    parser.add_argument("--growth-interval", type=int, default=2000)
    args = parser.parse_args()
    args.epochs, args.shuffle, args.seed, args.accumulation_steps = 10, "distributed", 0, 1
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = stranger.ConvNet()
    images, labels = stranger.read_mnist(args.data)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)
    scaler = torch.amp.GradScaler("cpu", init_scale=args.init_scale or 65536.0, growth_interval=args.growth_interval,
                                  enabled=args.init_scale != 0)
    skipped = 0
    for number, (_, _, _, ids) in enumerate(stranger.batches(args, len(images))):
        if number == args.max_steps:
            break
        start = [b.clone() for b in model.buffers()]
        shares = [share(model, start, images[own[0]], labels[own[0]], args, scaler) for own in ids]
        for p, parts in zip(model.parameters(), zip(*(s[1] for s in shares))):
            p.grad = stranger.tree_sum(list(parts)).mul(1 / args.virtual_workers)
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5, foreach=False)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        skipped += scaler.get_scale() < before
        for buffer, new in zip(model.buffers(), shares[0][2]):
            buffer.copy_(new)
        print(f"step {number} loss {shares[0][0].hex()} scale {scaler.get_scale()}")
    print(f"skipped {skipped}")
    print("weights sha256", stranger.weights_sha256(model))


if __name__ == "__main__":
    main()
