"""Tutorial 002's DataParallel by hand, in one process: convnet_peer.py DATA EPOCHS BATCH REPLICAS, in the current folder.

The document's loop, its model in the place of nn.DataParallel's replicas (which needs GPUs): each batch in torch.chunk's chunks, one
copy of the model for each, one loss over their outputs side by side, gradients summed along the tree of docs/design/arithmetic.md,
buffers of the first. The order of the data is that of PyTorch 1.2. Prints the model, then the weights' SHA-256; losses.json has each
step's loss.
"""
import copy
import json
import pathlib
import sys

import torch
from torch import nn

import peer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
from stranger import legacy_order, read_mnist, tree_sum  # noqa: E402


class ConvNet(nn.Module):
    """As the document has it."""

    def __init__(self, num_classes=10):
        super(ConvNet, self).__init__()
        self.layer1 = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=5, stride=1, padding=2),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2, stride=2))
        self.layer2 = nn.Sequential(
            nn.Conv2d(16, 32, kernel_size=5, stride=1, padding=2),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2, stride=2))
        self.fc = nn.Linear(7 * 7 * 32, num_classes)

    def forward(self, x):
        out = self.layer1(x)
        out = self.layer2(out)
        out = out.reshape(out.size(0), -1)
        out = self.fc(out)
        return out


def backward(model, replicas, images, labels, criterion):
    """The loss; each parameter of the model has its gradient, and the buffers are those that the first replica left."""
    chunks = images.chunk(len(replicas))
    replicas = replicas[:len(chunks)]
    for replica in replicas:
        replica.load_state_dict(model.state_dict())
        replica.zero_grad()
    loss = criterion(torch.cat([replica(chunk) for replica, chunk in zip(replicas, chunks)]), labels)
    loss.backward()
    for own, *parts in zip(model.parameters(), *(replica.parameters() for replica in replicas)):
        own.grad = tree_sum([part.grad for part in parts])
    for own, first in zip(model.buffers(), replicas[0].buffers()):
        own.copy_(first)
    return loss.item()


def main(folder, epochs, batch_size, count):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = ConvNet()
    print(model)
    replicas = [copy.deepcopy(model) for _ in range(count)]
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    images, labels = read_mnist(folder)
    losses = []
    for _ in range(epochs):
        for ids in torch.tensor(legacy_order(len(images))[0]).split(batch_size):
            losses.append(backward(model, replicas, images[ids], labels[ids], criterion))
            optimizer.step()
    with open("losses.json", "w") as file:
        json.dump([[loss.hex() for loss in losses]], file)
    peer.say_weights(model)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
