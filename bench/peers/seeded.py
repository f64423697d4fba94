"""Another script with another seed than its own: seeded.py SEED SCRIPT [argument...]. Every torch.manual_seed() gets SEED."""
import runpy
import sys

import torch

seed, script = int(sys.argv[1]), sys.argv[2]
set_seed = torch.manual_seed
torch.manual_seed = lambda _: set_seed(seed)
sys.argv = sys.argv[2:]
sys.path.insert(0, script.rpartition("/")[0])
runpy.run_path(script, run_name="__main__")
