"""Training steps a second under DistributedDataParallel over Gloo, data in memory: hosts_rate.py MODEL WARM_UP STEPS copied|view

The counterpart of step_rate (bench/programs): the same networks, initial values, batches and optimizers. `view`:
gradient_as_bucket_view. RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set. Rank 0 prints one JSON object.
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel as DDP

model, warm_up, steps, view = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "view"
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
if model == "cifar_resnet18":
    from models import ResNet18  # of the --peers folder

    net, batch = ResNet18(), 64
elif model == "resnet18":
    net, batch = torchvision.models.resnet18(num_classes=10), 8
else:
    net, batch = torchvision.models.vgg19(num_classes=10, dropout=0), 8
wrapped = DDP(net, gradient_as_bucket_view=view)
optimizer = torch.optim.SGD(net.parameters(), 1e-2) if model == "vgg19" else torch.optim.Adam(net.parameters(), 1e-3)
torch.manual_seed(100 + rank)
pool = [(torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))) for _ in range(8)]
for i in range(warm_up + steps):
    if i == warm_up:
        dist.barrier()
        begin = time.perf_counter()
    x, y = pool[i % 8]
    loss = torch.nn.functional.cross_entropy(wrapped(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
seconds = time.perf_counter() - begin
if rank == 0:
    print(json.dumps({"steps_per_s": steps / seconds, "loss": loss.item()}))
dist.destroy_process_group()
