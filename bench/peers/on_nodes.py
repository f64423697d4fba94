"""A script for two nodes, unmodified torchrun's style: says when it is there, and what its first all-reduce came to.

on_nodes.py FOLDER: the first attempt's last rank ends with 1 once all have met, where FOLDER/die is there; the first attempt waits
where FOLDER/wait is there. Lines of FOLDER/RANK.ATTEMPT: the name of the moment and its time.
"""
import time

BEGIN = time.time()
import os  # noqa: E402
import sys  # noqa: E402

folder, rank, attempt = sys.argv[1], int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
log = open(f"{folder}/{rank}.{attempt}", "w", buffering=1)
log.write(f"begin {BEGIN}\n")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

log.write(f"imported {time.time()}\n")
dist.init_process_group("gloo")
value = torch.ones(1) * (rank + 1)
dist.all_reduce(value)
world = dist.get_world_size()
assert value.item() == world * (world + 1) / 2, value
log.write(f"summed {time.time()}\n")
if attempt == 0 and os.path.exists(folder + "/die") and rank == world - 1:
    time.sleep(0.5)
    log.write(f"dies {time.time()}\n")
    os._exit(1)
if attempt == 0 and (os.path.exists(folder + "/die") or os.path.exists(folder + "/wait")):
    time.sleep(600)
dist.destroy_process_group()
