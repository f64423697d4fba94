"""How a rank of stock PyTorch's ends, for the scripts whose results are golden values."""
import os
import sys

import torch.distributed as dist


def leave():
    """At once: threads of Gloo's may still hold Python objects, and abort an interpreter that is torn down (pytorch PR 179291)."""
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
