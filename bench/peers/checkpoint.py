"""Saving and loading ResNet-18 with Adam (134 MB) in PyTorch, beside micro/checkpoint_bench: python checkpoint.py FOLDER REPEATS.

With the peers' folder in PYTHONPATH. One JSON line, medians in ms: save_synced (torch.save and fsync: the training stands still),
async_stall (dcp.async_save until it returns; a stager that is kept would copy into memory it has, but torch 2.11's fails at its second save:
KeyError: <class 'type'>), load (torch.load with mmap, into the model and the optimizer). One thread, as ours.
Each round saves other values; what was loaded is compared outside the clock.
"""
import json
import os
import shutil
import statistics
import sys
import time

import torch
import torch.distributed.checkpoint as dcp
from models import ResNet18

folder, repeats = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
path, parts = os.path.join(folder, "peer.pt"), os.path.join(folder, "peer.dcp")


def trained(seed):
    torch.manual_seed(seed)
    net = ResNet18()
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    for parameter in net.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    return net, optimizer


def save():
    with open(path, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())


def load(net, optimizer):
    got = torch.load(path, mmap=True)
    net.load_state_dict(got["model"])
    optimizer.load_state_dict(got["optim"])


def save_aside():
    job = dcp.async_save(state, checkpoint_id=parts)
    stalled = time.perf_counter()
    job.result()
    return stalled


def tensors(net, optimizer):
    moments = [value for each in optimizer.state_dict()["state"].values() for value in each.values()]
    return list(net.state_dict().values()) + moments


def timed(call):
    begin = time.perf_counter()
    end = call() or time.perf_counter()
    return (end - begin) * 1e3


net, optimizer = trained(0)
state = {"model": net.state_dict(), "optim": optimizer.state_dict()}
other = trained(1)
save()
calls = {"save_synced": save, "load": lambda: load(*other), "async_stall": save_aside}
times = {name: [] for name in calls}
for i in range(repeats + 1):  # the first one is a warm-up
    os.remove(path)
    for tensor in tensors(net, optimizer):
        if tensor.is_floating_point() and tensor.dim() > 0:
            torch.nn.init.normal_(tensor)
    for name, call in calls.items():
        shutil.rmtree(parts, ignore_errors=True)
        times[name].append(timed(call))
    for a, b in zip(tensors(net, optimizer), tensors(*other)):
        assert torch.equal(a, b), "what was loaded is not what was saved"
os.remove(path)
shutil.rmtree(parts, ignore_errors=True)
print(json.dumps({name: statistics.median(values[1:]) for name, values in times.items()}))
