"""Tutorial 004 in stock PyTorch: cifar_cluster_peer.py ARGUMENTS..., in the current folder.

The document's listing, function by function, over Gloo on the CPU, with a size for what it fixes (samples, picture, batch, seed) and the
accuracy by numpy. Each rank prints into rank_R.txt, and leaves each step's loss and each epoch's mean loss over all validation samples in
steps_R.json. Last line: the weights' SHA-256.
"""
import argparse
import datetime
import json
import os
import pathlib
import pickle
import random
import socket
import sys

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import peer
import ranks

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "unit/models"))
from tutorial_resnet import Block, ResNet  # noqa: E402


def _load_data(file_path):
    with open(file_path, "rb") as file:
        raw_data = pickle.load(file, encoding="bytes")
    return raw_data[b"data"].reshape(-1, 3, 32, 32) / 255, raw_data[b"labels"]


def load_cifar_data(root_path):
    folder = os.path.join(root_path, "cifar-10-batches-py")
    train_data_record, train_labels = [], []
    for i in range(1, 6):
        data, labels = _load_data(os.path.join(folder, f"data_batch_{i}"))
        train_data_record.append(data)
        train_labels += labels
    val_data, val_labels = _load_data(os.path.join(folder, "test_batch"))
    tr_data = torch.from_numpy(np.concatenate(train_data_record, axis=0)).float()
    return (tr_data, torch.from_numpy(np.array(train_labels)).long(),
            torch.from_numpy(val_data).float(), torch.from_numpy(np.array(val_labels)).long())


def get_data(args):
    if args.custom_data == "true":
        train_samples, test_samples, img_size = args.train_samples, args.val_samples, args.image_size
        tr_label = [1] * int(train_samples / 2) + [0] * int(train_samples / 2)
        val_label = [1] * int(test_samples / 2) + [0] * int(test_samples / 2)
        random.seed(2021)
        random.shuffle(tr_label)
        random.shuffle(val_label)
        tr_data, tr_labels = torch.randn((train_samples, 3, img_size, img_size)).float(), torch.tensor(tr_label).long()
        val_data, val_labels = torch.randn((test_samples, 3, img_size, img_size)).float(), torch.tensor(val_label).long()
    else:
        tr_data, tr_labels, val_data, val_labels = load_cifar_data(args.data_url)
    return TensorDataset(tr_data, tr_labels), TensorDataset(val_data, val_labels)


def setup_seed(seed):
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def main(rank, args):
    torch.set_num_threads(1)
    setup_seed(args.seed or datetime.datetime.now().year)
    dist.init_process_group(init_method=args.init_method, backend="gloo", world_size=args.world_size, rank=rank)
    tr_set, val_set = get_data(args)
    tr_sampler = DistributedSampler(tr_set, num_replicas=args.world_size, rank=rank)
    tr_loader = DataLoader(tr_set, batch_size=args.batch_size, sampler=tr_sampler, shuffle=False, drop_last=True)
    val_loader = DataLoader(val_set, batch_size=args.batch_size, shuffle=False)
    memory_format = torch.channels_last if args.memory_format == "channels_last" else torch.contiguous_format
    model = peer.DDP(ResNet(Block).to(memory_format=memory_format))
    optimizer = optim.Adam(model.parameters(), lr=args.lr * 1 * args.world_size)
    loss_func = torch.nn.CrossEntropyLoss()
    os.makedirs(args.output_dir, exist_ok=True)
    lines, losses, exact = open(f"rank_{rank}.txt", "w"), [], []

    for epoch in range(1, args.epochs + 1):
        model.train()
        train_loss = 0
        tr_sampler.set_epoch(epoch)
        for tr_x, tr_y in tr_loader:
            out = model(tr_x.to(memory_format=memory_format))
            loss = loss_func(out, tr_y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            train_loss += loss.item()
            losses.append(loss.item())
        print("train | epoch: %d | loss: %.4f" % (epoch, train_loss / len(tr_loader)), file=lines)

        val_loss, loss_sum = 0, 0
        pred_record, real_record = [], []
        model.eval()
        with torch.no_grad():
            for val_x, val_y in val_loader:
                out = model(val_x.to(memory_format=memory_format))
                pred_record += list(np.argmax(out.cpu().numpy(), axis=1))
                real_record += list(val_y.cpu().numpy())
                val_loss += loss_func(out, val_y).item()
                loss_sum += nn.functional.cross_entropy(out, val_y, reduction="sum").item()
        val_accu = float(np.mean(np.array(pred_record) == np.array(real_record)))
        exact.append(loss_sum / len(val_set))
        print("val | epoch: %d | loss: %.4f | accuracy: %.4f" % (epoch, val_loss / len(val_loader), val_accu), "\n", file=lines)
        if rank == 0:
            torch.save(model.state_dict(), os.path.join(args.output_dir, f"epoch_{epoch}.pth"))
    lines.close()
    with open(f"steps_{rank}.json", "w") as file:
        json.dump({"losses": losses, "exact": exact}, file)
    if rank == 0:
        peer.say_weights(model.module)
    ranks.leave()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--custom_data", default="false")
    parser.add_argument("--data_url", default="input_dir")
    parser.add_argument("--output_dir", default="output_dir")
    parser.add_argument("--memory_format", default="contiguous")
    for name, default in (("batch_size", 128), ("train_samples", 5000), ("val_samples", 1000), ("image_size", 32), ("seed", None)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    args.world_size = peer.RANKS
    with socket.create_server(("127.0.0.1", 0)) as probe:
        args.init_method = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    mp.start_processes(main, (args,), args.world_size, start_method="fork")  # libtorch is imported once
