#!/usr/bin/env python3
"""Apex's rules for mixed precision (apex.amp 0.1: frontend.py, _initialize.py, _process_optimizer.py, scaler.py and
fp16_utils/fp16util.py), for the ConvNet on the CPU: the stranger's shares and sums, PyTorch's own SGD and clipping. Prints each step's
loss and the loss scale after it, then the weights' hash, which is of the fp32 weights (O3: of the half ones).

    python3 apex.py --data DIR --opt-level O2 --half-dtype fp16 --virtual-workers 2 --max-steps 8
"""
import argparse
import hashlib

import torch
from torch import nn

import stranger

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def convert_network(network, dtype):
    """All floating parameters and buffers, but for batch norms with weights."""
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.affine:
            continue
        for tensor in [*module.parameters(recurse=False), *module.buffers(recurse=False)]:
            if tensor.is_floating_point():
                tensor.data = tensor.data.to(dtype)


class LossScaler:
    """dynamic: O1 and O2; else the scale is 1 and nothing is looked at."""

    def __init__(self, dynamic, args):
        self.dynamic, self.window, self.most = dynamic, args.scale_window, args.max_scale
        self.scale = min(self.most, args.init_scale) if dynamic else 1.0
        self.unskipped, self.overflow = 0, False

    def unscaled(self, gradient):
        """In fp32."""
        if self.dynamic and not torch.isfinite(gradient).all():
            self.overflow = True
        return gradient.float().mul(1.0 / self.scale) if self.scale != 1.0 else gradient.float()

    def update(self):
        """Whether the step has to be left out."""
        skip, self.overflow = self.overflow, False
        if skip:
            self.scale /= 2.0
            self.unskipped = 0
        else:
            self.unskipped += 1
        if self.dynamic and self.unskipped == self.window:
            self.scale = min(self.most, self.scale * 2.0)
            self.unskipped = 0
        return skip


class Amp:
    """What amp.initialize() makes of the model: how it is called, and what the optimizer has."""

    def __init__(self, model, args):
        self.model, self.level, self.dtype = model, args.opt_level, DTYPES[args.half_dtype]
        if self.level == "O2":
            convert_network(model, self.dtype)
        elif self.level == "O3":
            model.to(self.dtype)
        self.scaler = LossScaler(self.level in ("O1", "O2"), args)
        self.own = list(model.parameters())
        self.masters = [p.detach().clone().float().requires_grad_() if self.level == "O2" and p.dtype == self.dtype else p for p in self.own]

    def scores(self, images):
        with torch.autocast("cpu", dtype=self.dtype, enabled=self.level == "O1"):
            return self.model(images.to(self.dtype) if self.level in ("O2", "O3") else images).float()

    def step(self, optimizer, gradients, clip):
        for p, gradient in zip(self.masters, gradients):
            p.grad = gradient if self.level == "O3" else self.scaler.unscaled(gradient)
        if clip:
            nn.utils.clip_grad_norm_(self.masters, clip, foreach=False)
        skip = self.scaler.update()
        if not skip:
            optimizer.step()
        with torch.no_grad():
            for own, master in zip(self.own, self.masters):
                if own is not master:
                    own.copy_(master)
        return skip

    def sha256(self):
        weights = dict(self.model.state_dict())
        weights.update((name, master.detach()) for (name, _), master in zip(self.model.named_parameters(), self.masters))
        digest = hashlib.sha256()
        for name, tensor in sorted(weights.items()):
            digest.update(name.encode() + tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()


def share(amp, start_buffers, images, labels):
    for buffer, start in zip(amp.model.buffers(), start_buffers):
        buffer.copy_(start)
    amp.model.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(amp.scores(images), labels)
    (loss.float() * amp.scaler.scale).backward()
    return loss.item(), [p.grad for p in amp.own], [b.clone() for b in amp.model.buffers()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--opt-level", choices=["O0", "O1", "O2", "O3"], default="O2")
    parser.add_argument("--half-dtype", choices=DTYPES, default="fp16")
    parser.add_argument("--virtual-workers", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--max-steps", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--clip-grad-norm", type=float, default=0.0)
    parser.add_argument("--init-scale", type=float, default=2.0 ** 16)
    parser.add_argument("--scale-window", type=int, default=2000)
    parser.add_argument("--max-scale", type=float, default=2.0 ** 24)
    args = parser.parse_args()
    args.epochs, args.shuffle, args.seed, args.accumulation_steps = 10, "distributed", 0, 1
    torch.set_num_threads(1)
    torch.manual_seed(0)
    amp = Amp(stranger.ConvNet(), args)
    images, labels = stranger.read_mnist(args.data)
    optimizer = torch.optim.SGD(amp.masters, lr=args.lr, momentum=args.momentum, foreach=False)
    skipped = 0
    for number, (_, _, _, ids) in enumerate(stranger.batches(args, len(images))):
        if number == args.max_steps:
            break
        start = [b.clone() for b in amp.model.buffers()]
        shares = [share(amp, start, images[own[0]], labels[own[0]]) for own in ids]
        sums = [stranger.tree_sum(list(parts)) for parts in zip(*(s[1] for s in shares))]
        if args.virtual_workers > 1:
            sums = [g.mul(1 / args.virtual_workers) for g in sums]
        skipped += amp.step(optimizer, sums, args.clip_grad_norm)
        for buffer, new in zip(amp.model.buffers(), shares[0][2]):
            buffer.copy_(new)
        print(f"step {number} loss {shares[0][0].hex()} scale {amp.scaler.scale}")
    print(f"skipped {skipped}")
    print("weights sha256", amp.sha256())


if __name__ == "__main__":
    main()
