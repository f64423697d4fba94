#!/usr/bin/env python3
"""Prints, for each setting, SHA-256 of two parameters after six updates by Python's torch.optim. optimizers_print.cpp does the same with ours."""
import hashlib

import torch

SETTINGS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, foreach=False),
    "sgd-momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False),
    "sgd-dampening": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.01, foreach=False),
    "sgd-nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, foreach=False),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-3, foreach=False),
    "adam-decay": lambda p: torch.optim.Adam(p, lr=1e-2, betas=(0.8, 0.99), weight_decay=0.1, foreach=False),
    "sgd-groups": lambda p: torch.optim.SGD([{"params": p[:1]}, {"params": p[1:], "lr": 0.01, "momentum": 0.9}], lr=0.1, foreach=False),
    "sgd-clip": lambda p: torch.optim.SGD(p, lr=0.1, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, foreach=False),
    "adamw-groups": lambda p: torch.optim.AdamW(
        [{"params": p[:1], "weight_decay": 0.05, "amsgrad": True}, {"params": p[1:], "lr": 1e-2, "betas": (0.5, 0.999)}], lr=1e-3, foreach=False),
    "adam-amsgrad": lambda p: torch.optim.Adam(p, lr=1e-3, amsgrad=True, foreach=False),
}


METRICS = [1.0, 0.9, 0.9, 0.89995, 0.95, 0.9, 0.5, 0.6, 0.6, 0.6, 0.55, 0.52, 0.51, 0.5, 0.49, 0.49, 0.49, 0.49, 0.49, 0.49]
SCHEDULERS = {
    "step": lambda o: torch.optim.lr_scheduler.StepLR(o, step_size=3),
    "step-gamma": lambda o: torch.optim.lr_scheduler.StepLR(o, step_size=1, gamma=0.97),
    "lambda": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda t: min(1.0, (t + 1) / 7) / (1 + 0.1 * t)),
    "lambdas": lambda o: torch.optim.lr_scheduler.LambdaLR(o, [lambda t: 1 / (t + 3), lambda t: 0.7 if t < 5 else 0.3]),
    "plateau": lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=1),
    "plateau-max-abs": lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(
        o, mode="max", factor=0.3, patience=2, threshold=0.01, threshold_mode="abs", cooldown=2, min_lr=1e-3),
}


def schedules():
    for name, make in SCHEDULERS.items():
        p = [torch.zeros(1).requires_grad_(), torch.zeros(1).requires_grad_()]
        optimizer = torch.optim.SGD([{"params": p[:1]}, {"params": p[1:], "lr": 0.007}], lr=0.1)
        scheduler = make(optimizer)
        rates = []
        for metric in METRICS:
            optimizer.step()
            scheduler.step(metric) if name.startswith("plateau") else scheduler.step()
            rates += [group["lr"].hex() for group in optimizer.param_groups]
        print(name, *rates)


def main():
    torch.set_num_threads(1)
    for name, make in SETTINGS.items():
        torch.manual_seed(0)
        parameters = [torch.randn(70, 50).requires_grad_(), torch.randn(11).requires_grad_()]
        optimizer = make(parameters)
        for step in range(6):
            parameters[0].grad = torch.randn(70, 50)
            gradient = torch.randn(11)
            parameters[1].grad = None if step == 2 else gradient  # a parameter that took no part
            if step == 4:
                for group in optimizer.param_groups:  # a schedule
                    group["lr"] /= 3
            if name == "sgd-clip":
                torch.nn.utils.clip_grad_norm_(parameters, 59.0)  # bites in some steps only
            optimizer.step()
        digest = hashlib.sha256()
        for parameter in parameters:
            digest.update(parameter.detach().numpy().tobytes())
        print(name, digest.hexdigest())
    schedules()


if __name__ == "__main__":
    main()
