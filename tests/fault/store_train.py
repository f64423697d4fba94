"""A worker of three that trains, and uses the store at each step, until the file argv[1] is there. Then rank 0 ends, and the others
go on with the store."""
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), None, False, timedelta(seconds=30), wait_for_workers=False)
step = 0
while True:
    numbers = torch.tensor([1.0, float(rank == 0 and os.path.exists(sys.argv[1]))])
    dist.all_reduce(numbers)
    assert numbers[0] == 3
    store.add(f"step {step}", 1)
    store.set(f"step {step} of {rank}", "done")
    store.wait([f"step {step} of {other}" for other in range(3)])
    assert store.get(f"step {step}") == b"3"
    if step == 0 and rank == 0:
        print("trains at", os.environ["MASTER_PORT"], flush=True)
    step += 1
    if numbers[1] == 1:
        break
    time.sleep(0.002)
if rank == 0:
    print("steps", step, flush=True)
    os._exit(0)
time.sleep(0.5)
group = dist.new_group([1, 2], use_local_synchronization=True)
numbers = torch.ones(1)
dist.all_reduce(numbers, group=group)
assert numbers.item() == 2
store.set(f"last of {rank}", "")
store.wait(["last of 1", "last of 2"])
os.write(1, b"went on\n")  # at once: two ranks write to one pipe
os._exit(0)
