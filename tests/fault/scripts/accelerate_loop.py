"""A training script as its author would write it for torchrun: a loop of one's own under Accelerate."""
import hashlib

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
torch.manual_seed(1)
inputs = torch.randn(256, 8)
loader = DataLoader(TensorDataset(inputs, (inputs[:, 0] > 0).long()), batch_size=16)
net = torch.nn.Linear(8, 2)
net, optimizer, loader = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1), loader)
for _ in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.cross_entropy(net(x), y))
        optimizer.step()
weights = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in net.parameters())).hexdigest()
print(f"rank {accelerator.process_index} of {accelerator.num_processes}: {weights}", flush=True)
accelerator.end_training()
