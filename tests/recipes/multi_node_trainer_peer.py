"""Tutorial 001 in stock PyTorch and torchvision: multi_node_trainer_peer.py DATA WEIGHTS EPOCHS BATCH SIZE WIDTH [BREAK], in the current folder.

The original's multi_node_trainer.py and ddp_trainer.py for two ranks over Gloo on the CPU, a classifier of another width, and a number of epochs
in place of the hours. What differs is what the recipe says it does otherwise: each step's dropout has a seed of its own; means over all samples of
all ranks, not over batches of one; validation over each sample once, without gradients; NAME_metrics.pt at each epoch's end. WEIGHTS: a file of
vgg19's, or "" for random values. BREAK: after so many steps of the last epoch it is evaluated, and all ends. Times are 0. Leaves rank_N.txt,
losses.json, training_saves/ and prints the weights' SHA-256.
"""
import os
import sys
from math import ceil, floor, sqrt

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, random_split
from torch.utils.data.distributed import DistributedSampler
from torchvision import transforms
from torchvision.datasets import ImageFolder
from torchvision.models import vgg

from peer import RANKS, gathered, say_weights, spawn

SEED, MASK = 0, 2**64 - 1


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def share_seed(step, rank):
    """docs/design/arithmetic.md, section 3."""
    return splitmix64(splitmix64(splitmix64(SEED) ^ step) ^ rank)


class Vgg19(vgg.VGG):
    """torchvision's, with a classifier of another width, drawn in its order."""

    def __init__(self, width, init_weights):
        nn.Module.__init__(self)
        self.features = vgg.make_layers(vgg.cfgs["E"], batch_norm=False)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(nn.Linear(512 * 7 * 7, width), nn.ReLU(True), nn.Dropout(), nn.Linear(width, width), nn.ReLU(True),
                                        nn.Dropout(), nn.Linear(width, 1000))
        if not init_weights:
            return
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                nn.init.constant_(m.bias, 0)
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0, 0.01)
                nn.init.constant_(m.bias, 0)


def create_train_objs(weights, width, classes, rank):
    if weights:
        model = vgg.VGG(vgg.make_layers(vgg.cfgs["E"], batch_norm=False), init_weights=False)
        model.load_state_dict(torch.load(weights, weights_only=True))
    else:
        model = Vgg19(width, True)
    model.classifier = nn.Sequential(nn.Linear(25088, width), nn.ReLU(inplace=True), nn.Dropout(p=0.7), nn.Linear(width, width // 2),
                                     nn.ReLU(inplace=True), nn.Dropout(p=0.7), nn.Linear(width // 2, classes))
    learning_rate = 0.0001 * sqrt(float(RANKS))
    print(f"Learning Rate = {learning_rate:.8f}", file=rank)
    return model, torch.optim.SGD(model.parameters(), lr=learning_rate)


def create_dataloaders(batch_size, data_path, size):
    transform = transforms.Compose([transforms.Resize((size, size)), transforms.ToTensor(),
                                    transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])])
    combined_data = ImageFolder(root=data_path, transform=transform)
    train_split = ceil(len(combined_data) * 0.80)
    valid_split = floor(len(combined_data) * 0.20)
    train_data, valid_data = random_split(combined_data, [train_split, valid_split], generator=torch.Generator().manual_seed(42))
    train_loader = DataLoader(train_data, batch_size=batch_size, shuffle=False, sampler=DistributedSampler(train_data))
    return train_loader, DataLoader(valid_data, batch_size=batch_size), len(combined_data.classes)


class Trainer:
    def __init__(self, rank, out, model, train_data, valid_data, optimizer):
        self.rank, self.out, self.model, self.train_data, self.valid_data, self.optimizer = rank, out, DDP(model), train_data, valid_data, optimizer
        self.epochs_run, self.run_time, self.epoch_times = 0, 0.0, []
        self.train_loss_history, self.valid_loss_history = [], []
        self.lowest_loss = self.train_loss = self.valid_loss = float("inf")
        self.losses, self.save_path = [], "training_saves/model_snapshot.pt"

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        total, count = 0.0, 0
        for source, targets in self.valid_data:
            total += F.cross_entropy(self.model.module(source), targets, reduction="sum").item()
            count += len(source)
        self.model.train()
        return total / count

    def run_batch(self, source, targets):
        torch.manual_seed(share_seed(len(self.losses), self.rank))
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(source), targets)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        return loss.item(), len(source)

    def run_epoch(self, steps):
        print(f"\n[GPU{self.rank}] Epoch: {self.epochs_run} | Batch_SZ: {self.train_data.batch_size} | Steps: {len(self.train_data)} "
              f"| T_loss: {self.train_loss:.3f} | V_loss: {self.valid_loss:.3f}", file=self.out)
        self.train_data.sampler.set_epoch(self.epochs_run)
        seen = [self.run_batch(*batch) for _, batch in zip(range(steps), self.train_data)]
        shares = [share for step in zip(*gathered(seen)) for share in step]
        self.train_loss = sum(loss * count for loss, count in shares) / sum(count for _, count in shares)
        self.valid_loss = self.validate()
        self.train_loss_history.append(self.train_loss)
        self.valid_loss_history.append(self.valid_loss)

    def metrics(self):
        return {"EPOCHS_RUN": self.epochs_run, "RUN_TIME": self.run_time, "TRAIN_HISTORY": self.train_loss_history,
                "VALID_HISTORY": self.valid_loss_history, "EPOCH_TIMES": self.epoch_times, "LOWEST_LOSS": self.lowest_loss}

    def train(self, epochs, steps_of_last):
        for epoch in range(epochs):
            broken = epoch == epochs - 1 and steps_of_last
            self.run_epoch(steps_of_last if broken else len(self.train_data))
            if not broken:
                self.epochs_run += 1
                self.epoch_times.append(0.0)
            if self.valid_loss < self.lowest_loss:
                self.lowest_loss = self.valid_loss
                if self.rank == 0:
                    torch.save({"MODEL_STATE": self.model.module.state_dict(), **self.metrics()}, self.save_path)
                    print(f"Training snapshot saved at {self.save_path}", file=self.out)
            print("\nCurrent Train Time: 0.0 hours & 0.00 minutes", file=self.out)
            if broken:
                print("Training completed -> Total train time: 0.00 seconds", file=self.out)
        if self.rank == 0:
            torch.save(self.metrics(), self.save_path[:-3] + "_metrics.pt")


def train(rank, data, weights, epochs, batch_size, size, width, steps_of_last="0"):
    os.makedirs("training_saves", exist_ok=True)
    with open(f"rank_{rank}.txt", "w") as out:
        train_data, valid_data, classes = create_dataloaders(int(batch_size), data, int(size))
        torch.manual_seed(SEED)
        model, optimizer = create_train_objs(weights, int(width), classes, out)
        trainer = Trainer(rank, out, model, train_data, valid_data, optimizer)
        trainer.train(int(epochs), int(steps_of_last))
    if rank == 0:
        say_weights(model)
    return trainer.losses


if __name__ == "__main__":
    spawn(train, *sys.argv[1:])
