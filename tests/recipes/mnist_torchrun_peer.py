"""The MNIST trainer of tutorial 000 in stock PyTorch: mnist_torchrun_peer.py DATA EPOCHS BATCH SAVE_EVERY [SIDE], in the current folder.

The document's listing with what it leaves out: the quickstart tutorial's network and train_loop, its lines on rank 0. Resumed at the
epoch after the file's, and with set_epoch() (the document's own repeats the epoch, and does not reshuffle). What the ranks say at the
end is put into the order of the document's printout. Last line: the weights' SHA-256; losses.json has each step's loss of each rank.
"""
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import peer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
from stranger import read_mnist  # noqa: E402


class Net(nn.Module):
    def __init__(self, side):
        super().__init__()
        self.flatten = nn.Flatten()
        self.linear_relu_stack = nn.Sequential(nn.Linear(side * side, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                                               nn.Linear(512, 10))

    def forward(self, x):
        return self.linear_relu_stack(self.flatten(x))


def train_loop(rank, dataloader, model, loss_fn, optimizer, losses):
    size = len(dataloader.dataset)
    for batch, (X, y) in enumerate(dataloader):
        loss = loss_fn(model(X), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if rank == 0 and batch % 100 == 0:
            loss, current = loss.item(), batch * len(X)
            print(f"loss: {loss:>7f}  [{current:>5d}/{size:>5d}]", flush=True)


def train(rank, folder, epochs, batch_size, save_every, side=28):
    torch.manual_seed(0)
    pictures, labels = read_mnist(folder)
    if side != 28:
        pictures = nn.functional.interpolate(pictures, (side, side), mode="bilinear", antialias=True)
    data = TensorDataset(pictures, labels)
    loader = DataLoader(data, batch_size=batch_size, sampler=DistributedSampler(data))
    os.makedirs("output_model", exist_ok=True)
    checkpoint_file = "output_model/best_model.pt"
    net = Net(side)
    epoch_start = 0
    if os.path.exists(checkpoint_file):
        checkpoint = torch.load(checkpoint_file, weights_only=True)
        net.load_state_dict(checkpoint["model_state_dict"])
        epoch_start = checkpoint["epoch"] + 1
    dist.barrier()
    model = peer.DDP(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    losses = []
    for epoch in range(epoch_start, epochs):
        loader.sampler.set_epoch(epoch)
        train_loop(rank, loader, model, nn.CrossEntropyLoss(), optimizer, losses)
        if rank != 0 and epoch + 1 == epochs:
            print("Done!", flush=True)
        dist.barrier()
        if rank == 0 and epoch % save_every == 0:
            print(f"Epoch {epoch + 1}\n-------------------------------")
            torch.save({"epoch": epoch, "model_state_dict": model.module.state_dict()}, checkpoint_file)
            print("Finished saving model\n", flush=True)
    if rank == 0:
        print("Done!")
        peer.say_weights(net)
    return losses


if __name__ == "__main__":
    peer.spawn(train, sys.argv[1], *map(int, sys.argv[2:]))
