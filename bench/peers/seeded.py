"""Another script with another seed than its own: seeded.py SEED SCRIPT [argument...]. Every torch.manual_seed() and
every DistributedSampler gets SEED, as our --seed is of both. Ends at once: Gloo's threads may hang an interpreter that is torn down."""
import os
import runpy
import sys

import torch
from torch.utils.data.distributed import DistributedSampler

seed, script = int(sys.argv[1]), sys.argv[2]
set_seed = torch.manual_seed
torch.manual_seed = lambda _: set_seed(seed)
make_sampler = DistributedSampler.__init__
DistributedSampler.__init__ = lambda self, *words, **named: make_sampler(self, *words, **{**named, "seed": seed})
sys.argv = sys.argv[2:]
sys.path.insert(0, script.rpartition("/")[0])
kept = runpy.run_path(script, run_name="__main__")
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
