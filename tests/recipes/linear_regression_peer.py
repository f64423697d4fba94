"""The linear regression of tutorial 000 in stock PyTorch: linear_regression_peer.py EPOCHS BATCH, in the current folder.

The document shows its printout alone; the data and the rate are the recipe's. The ranks' lines are printed in their order. Last line:
the weights' SHA-256; losses.json has each step's loss of each rank.
"""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import peer


def draw_data():
    inputs, slopes, noise = torch.randn(128, 20), torch.randn(20, 1), torch.randn(128, 1)
    return TensorDataset(inputs, inputs @ slopes + noise)


def train_loop(dataloader, model, loss_fn, optimizer, losses):
    lines = ""
    size = len(dataloader.dataset)
    for batch, (X, y) in enumerate(dataloader):
        loss = loss_fn(model(X), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if batch % 100 == 0:
            loss, current = loss.item(), batch * len(X)
            lines += f"loss: {loss:>7f}  [{current:>5d}/{size:>5d}]\n"
    return lines


def train(rank, epochs, batch_size):
    torch.manual_seed(0)
    data = draw_data()
    net = nn.Linear(20, 1)
    loader = DataLoader(data, batch_size=batch_size, sampler=DistributedSampler(data))
    model = peer.DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    losses = []
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        lines = train_loop(loader, model, nn.MSELoss(), optimizer, losses)
        if epoch + 1 == epochs:
            all_lines = peer.gathered(lines), peer.gathered("Done!\n")
        else:
            all_lines = peer.gathered(lines), []
        if rank == 0:
            print(f"Epoch {epoch + 1}\n-------------------------------")
            print("".join("".join(of_ranks) for of_ranks in all_lines), end="")
    if rank == 0:
        peer.say_weights(net)
    return losses


if __name__ == "__main__":
    peer.spawn(train, *map(int, sys.argv[1:]))
