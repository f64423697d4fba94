"""Tutorial 003 in stock PyTorch: multigpu_torchrun_peer.py EPOCHS SAVE_EVERY, in the current folder.

The blog's trainer with what it leaves out (PyTorch's toy data set and model of the same tutorial), over Gloo on the CPU, with a mean
squared error, and set_epoch() called as the document asks. Last line: the weights' SHA-256; losses.json has each step's loss of each
rank.
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

import peer


class MyTrainDataset(Dataset):
    def __init__(self, size):
        self.data = [(torch.rand(20), torch.rand(1)) for _ in range(size)]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]


def train(rank, epochs, save_every):
    torch.manual_seed(0)
    data = MyTrainDataset(2048)
    model = torch.nn.Linear(20, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    first = 0
    if os.path.exists("snapshot.pt"):
        snapshot = torch.load("snapshot.pt", weights_only=True)
        model.load_state_dict(snapshot["MODEL_STATE"])
        first = snapshot["EPOCHS_RUN"] + 1
    dist.barrier()
    ddp = peer.DDP(model)
    losses = []
    loader = DataLoader(data, batch_size=32, shuffle=False, sampler=DistributedSampler(data))
    for epoch in range(first, epochs):
        loader.sampler.set_epoch(epoch)
        for source, targets in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(ddp(source), targets)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if rank == 0 and epoch % save_every == 0:
            torch.save({"MODEL_STATE": model.state_dict(), "EPOCHS_RUN": epoch}, "snapshot.pt")
    if rank == 0:
        peer.say_weights(model)
    return losses


if __name__ == "__main__":
    peer.spawn(train, *map(int, sys.argv[1:]))
