"""Python's side of optimizer_test.cpp.

optimizer_peer.py DIR   for each case: goes on from DIR/NAME-ours.pt and compares the end with the whole course; saves its own first
half as DIR/NAME-zip.pt and, in the form before torch 1.6, as DIR/NAME-stream.pt (DIR/NAME-early.pt: with what optimizers had in it
then), the end of the whole course as DIR/NAME-whole.pt
"""
import pathlib
import sys

import torch

HALF, WHOLE = 3, 6
SGD, Adam, AdamW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
CASES = {
    "sgd": (SGD, {"lr": 0.1, "momentum": 0.9}),
    "sgd-nesterov": (SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    "sgd-groups": (SGD, {"lr": 0.1}, {"lr": 0.01, "momentum": 0.8, "dampening": 0.5}),
    "adam": (Adam, {"lr": 1e-2, "weight_decay": 0.1}),
    "adam-groups": (Adam, {"lr": 1e-2, "amsgrad": True}, {"lr": 1e-3, "betas": (0.8, 0.99), "eps": 1e-6}),
    "adamw": (AdamW, {"lr": 1e-2}),
    "adamw-groups": (AdamW, {"lr": 1e-2, "weight_decay": 0.05}, {"lr": 1e-3, "amsgrad": True}),
}


def parameters():
    torch.manual_seed(0)
    return [torch.randn(7, 5), torch.randn(3), torch.randn(2)]


def make(name, p):
    kind, *settings = CASES[name]
    members = [p] if len(settings) == 1 else [[p[0], p[2]], [p[1]]]
    return kind([{"params": m, **s} for m, s in zip(members, settings)])


def train(p, optimizer, start, end):
    for step in range(start, end):
        torch.manual_seed(100 + step)
        p[0].grad = torch.randn(7, 5)
        p[1].grad = None if step == 1 else torch.randn(3)
        if step == 2:
            optimizer.param_groups[-1]["lr"] /= 3
        optimizer.step()


def trained(name, steps):
    p = parameters()
    optimizer = make(name, p)
    train(p, optimizer, 0, steps)
    return p, optimizer


def same(a, b):
    """Equal in keys, in types and bits of tensors; 0.0 is 0."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def go_on(name, path):
    saved = torch.load(path, weights_only=True)
    p = list(saved["MODEL_STATE"].values())
    optimizer = make(name, p)
    theirs = trained(name, HALF)[1].state_dict()
    assert same(saved["OPTIMIZER_STATE"], theirs), f"{name}: {saved['OPTIMIZER_STATE']}\n{theirs}"
    optimizer.load_state_dict(saved["OPTIMIZER_STATE"])
    train(p, optimizer, HALF, WHOLE)
    return p


def snapshot(p, optimizer):
    torch.optim.lr_scheduler.StepLR(optimizer, 100)  # leaves its initial_lr in the groups
    return {"MODEL_STATE": {f"p{i}": t for i, t in enumerate(p)}, "OPTIMIZER_STATE": optimizer.state_dict()}


def early(half):
    """As torch 1.5 has it: steps are ints, a buffer that is not there yet is None, and most flags are to come."""
    state, groups = half["OPTIMIZER_STATE"]["state"], half["OPTIMIZER_STATE"]["param_groups"]
    of_sgd = "momentum" in groups[0]
    state = {i: {key: int(value) if key == "step" else value for key, value in one.items()} for i, one in state.items()}
    known = {"lr", "momentum", "dampening", "weight_decay", "nesterov", "betas", "eps", "amsgrad", "params"}
    groups = [{key: value for key, value in group.items() if key in known} for group in groups]
    frozen = groups[0]["params"][-1]
    return half | {"OPTIMIZER_STATE": {"state": state | ({frozen: {"momentum_buffer": None}} if of_sgd else {}), "param_groups": groups}}


def main(folder):
    for name in CASES:
        whole = trained(name, WHOLE)
        assert same(go_on(name, folder / f"{name}-ours.pt"), whole[0]), f"{name}: other bits"
        torch.save(snapshot(*whole), folder / f"{name}-whole.pt")
        half = snapshot(*trained(name, HALF))
        torch.save(half, folder / f"{name}-zip.pt")
        torch.save(half, folder / f"{name}-stream.pt", _use_new_zipfile_serialization=False)
        torch.save(early(half), folder / f"{name}-early.pt", _use_new_zipfile_serialization=False)
    print(len(CASES), "gone on from")


torch.set_num_threads(1)
main(pathlib.Path(sys.argv[1]))
