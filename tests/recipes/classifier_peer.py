"""Tutorial 000's classifier in stock PyTorch and torchvision: classifier_peer.py DATA WEIGHTS BATCH SIZE JOB..., in the current folder.

The document's listing, function by function, for two ranks over Gloo on the CPU; DATA has Train and Validation, WEIGHTS is resnet34's state_dict.
What differs is what the recipe says it does otherwise: parameters that are frozen, and their batch norms; each picture's own random stream; a mean
over all samples of all ranks, not over batches and not divided by their size once more; validation over each sample once; set_epoch and the resumed
epoch as meant. A job is FOLDER:BACKBONE:EPOCHS, BACKBONE frozen or trained; one after the other, each leaves out.txt (last line: the weights'
SHA-256), losses.json, output_model/best_model.pt and, of its first epoch, first.pt. With best_model.pt there, it goes on.
"""
import contextlib
import json
import os
import shutil
import struct
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, models, transforms

from peer import gathered, say_weights, spawn

SEED, MASK = 0, 2**64 - 1
XXH_SECRET = bytes.fromhex("b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f")  # xxHash's kSecret, its first 32 bytes


def sample_key(seed, epoch, sample):
    """The low 32 bits of XXH3-64 of three numbers (docs/design/arithmetic.md), by its rule for 17 to 128 bytes."""
    data = struct.pack("<QQQ", seed, epoch, sample)

    def mix(at, secret):
        low, high = struct.unpack_from("<QQ", data, at)
        key_low, key_high = struct.unpack_from("<QQ", XXH_SECRET, secret)
        product = (low ^ key_low) * (high ^ key_high)
        return (product ^ product >> 64) & MASK

    acc = (len(data) * 0x9E3779B185EBCA87 + mix(0, 0) + mix(len(data) - 16, 16)) & MASK
    acc = (acc ^ acc >> 37) * 0x165667919E3779F9 & MASK
    return (acc ^ acc >> 32) & 0xFFFFFFFF


class Keyed(torch.utils.data.Dataset):
    """Each picture's transforms draw from a stream of its own."""

    def __init__(self, folder):
        self.folder, self.epoch = folder, 0

    def __len__(self):
        return len(self.folder)

    def __getitem__(self, i):
        torch.manual_seed(sample_key(SEED, self.epoch, i))
        return self.folder[i]


def load_datasets(root, size):
    val_img_transform = transforms.Compose([transforms.Resize((size, size)), transforms.ToTensor()])
    train_img_transform = transforms.Compose([transforms.AutoAugment(), transforms.Resize((size, size)), transforms.ToTensor()])
    return (Keyed(datasets.ImageFolder(root + "/Train", transform=train_img_transform)),
            datasets.ImageFolder(root + "/Validation", transform=val_img_transform))


def getResNet(weights, frozen, classes):
    resnet = models.resnet34()
    resnet.load_state_dict(torch.load(weights, weights_only=True))
    for conv_param in resnet.parameters():
        conv_param.requires_grad = not frozen
    num_ftrs = resnet.fc.in_features
    resnet.fc = nn.Sequential(nn.Linear(num_ftrs, num_ftrs), nn.ReLU(), nn.Linear(num_ftrs, classes))
    return resnet


def training_mode(model, frozen):
    model.train(True)
    if frozen:
        model.eval()
        model.fc.train(True)


@torch.no_grad()
def eval_model(data_loader, model, loss_sum_fn):
    model.eval()
    loss, correct, count = 0.0, 0.0, 0
    for x, y in data_loader:
        pred = model(x)
        loss += loss_sum_fn(pred, y).item()
        correct += torch.sum(torch.argmax(pred, axis=1) == y).item()
        count += len(x)
    return loss / count, correct / count


def train_all(rank, root, weights, batch_size, size, *jobs):
    """Each rank in the job's folder."""
    start = os.getcwd()
    for job in jobs:
        folder, backbone, epochs = job.split(":")
        os.makedirs(folder, exist_ok=True)
        dist.barrier()
        os.chdir(folder)
        with open("out.txt" if rank == 0 else os.devnull, "w") as file, contextlib.redirect_stdout(file):
            losses = gathered([loss.hex() for loss in train(rank, root, weights, epochs, batch_size, size, backbone)])
        with open("losses.json" if rank == 0 else os.devnull, "w") as file:
            json.dump(losses, file)
        os.chdir(start)
    return []


def train(rank, root, weights, epochs, batch_size, size, backbone):
    frozen, checkpoint_file = backbone == "frozen", os.getcwd() + "/output_model/best_model.pt"
    os.makedirs("output_model", exist_ok=True)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
    loss_sum_fn = nn.CrossEntropyLoss(label_smoothing=0.1, reduction="sum")
    train_set, val_set = load_datasets(root, int(size))
    train_sampler = DistributedSampler(dataset=train_set, shuffle=True, seed=SEED)
    train_loader = torch.utils.data.DataLoader(train_set, batch_size=int(batch_size), sampler=train_sampler)
    val_loader = torch.utils.data.DataLoader(val_set, batch_size=int(batch_size))
    torch.manual_seed(SEED)
    net = getResNet(weights, frozen, len(val_set.classes))
    epoch_start, best_val_acc = 0, 0.0
    if rank == 0:
        print(f"Train set size: {len(train_set)}, Validation set size: {len(val_set)}")
    if os.path.exists(checkpoint_file):
        checkpoint = torch.load(checkpoint_file, weights_only=True)
        best_val_acc = checkpoint["accuracy"].item()
        net.load_state_dict(checkpoint["model_state_dict"])
        epoch_start = checkpoint["epoch"] + 1
        if rank == 0:
            print(f"resuming training from epoch {epoch_start}")
    dist.barrier()
    model = nn.parallel.DistributedDataParallel(net)
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="min", factor=0.1, patience=5, min_lr=1e-8)

    losses = []
    for epoch in range(epoch_start, int(epochs)):
        training_mode(net, frozen)
        train_loader.sampler.set_epoch(epoch)
        train_set.epoch = epoch
        seen = []
        for x, y in train_loader:
            pred = model(x)
            loss = loss_fn(pred, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
            seen.append((loss.item(), torch.sum(torch.argmax(pred, axis=1) == y).item(), len(x)))
        val_loss, val_acc = eval_model(val_loader, net, loss_sum_fn)
        scheduler.step(val_loss)
        steps = [share for step in zip(*gathered(seen)) for share in step]
        count = sum(samples for _, _, samples in steps)
        avg_loss, avg_acc = sum(loss * samples for loss, _, samples in steps) / count, sum(right for _, right, _ in steps) / count
        if rank == 0:
            if val_acc > best_val_acc:
                print(f"\nPrev Best Val Acc: {best_val_acc} < Cur Val Acc: {val_acc}")
                print("Saving the new best model...")
                torch.save({"epoch": epoch, "machine": rank, "model_state_dict": net.state_dict(),
                            "accuracy": torch.tensor(val_acc, dtype=torch.float64), "loss": torch.tensor(val_loss, dtype=torch.float64)}, checkpoint_file)
                best_val_acc = val_acc
                if epoch == 0:
                    shutil.copy(checkpoint_file, "first.pt")
                print("Finished saving model\n")
            print(f"\n(Epoch {epoch+1}/{epochs}) Time: 0s")
            print(f"(Epoch {epoch+1}/{epochs}) Average train loss: {avg_loss}, Average train accuracy: {avg_acc}")
            print(f"(Epoch {epoch+1}/{epochs}) Val loss: {val_loss}, Val accuracy: {val_acc}")
            print(f"(Epoch {epoch+1}/{epochs}) Current best val acc: {best_val_acc}\n")

    if rank == 0:
        best_model = getResNet(weights, frozen, len(val_set.classes))
        best_model.load_state_dict(torch.load(checkpoint_file, weights_only=True)["model_state_dict"])
        loss, acc = eval_model(val_loader, best_model, loss_sum_fn)
        print(f"\nBest model (val loss: {loss}, val accuracy: {acc}) has been saved to {checkpoint_file}\n")
        print("Cleaning up the distributed environment...")
        print("Distributed environment has been properly closed")
        say_weights(net)
    return losses


if __name__ == "__main__":
    spawn(train_all, *sys.argv[1:])
