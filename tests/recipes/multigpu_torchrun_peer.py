"""Tutorial 003 in stock PyTorch: multigpu_torchrun_peer.py EPOCHS SAVE_EVERY [RANKS], in the current folder.

The blog's trainer with what it leaves out (PyTorch's toy data set and model of the same tutorial), over Gloo on the CPU, with a mean
squared error, and set_epoch() called as the document asks. Last line: the weights' SHA-256.
"""
import hashlib
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class MyTrainDataset(Dataset):
    def __init__(self, size):
        self.data = [(torch.rand(20), torch.rand(1)) for _ in range(size)]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]


def weights_sha256(model):
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def train(rank, ranks, port, epochs, save_every):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
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
    ddp = DDP(model)
    loader = DataLoader(data, batch_size=32, shuffle=False, sampler=DistributedSampler(data))
    for epoch in range(first, epochs):
        loader.sampler.set_epoch(epoch)
        for source, targets in loader:
            optimizer.zero_grad()
            F.mse_loss(ddp(source), targets).backward()
            optimizer.step()
        if rank == 0 and epoch % save_every == 0:
            torch.save({"MODEL_STATE": model.state_dict(), "EPOCHS_RUN": epoch}, "snapshot.pt")
    if rank == 0:
        print("weights sha256", weights_sha256(model))
    dist.destroy_process_group()


if __name__ == "__main__":
    epochs, save_every = int(sys.argv[1]), int(sys.argv[2])
    with __import__("socket").create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ranks = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    mp.spawn(train, (ranks, port, epochs, save_every), ranks)
