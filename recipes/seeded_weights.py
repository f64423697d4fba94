#!/usr/bin/env python3
"""A torchvision network's initial values under a seed, as a file for --weights: seeded_weights.py resnet34|vgg19 FILE [--seed 0]

For where torchvision's trained weights are not to be had. It shows that such a file is read and the network under the new head is
left alone or trained; of the accuracy with trained weights it says nothing. Needs torch and torchvision.
"""
import argparse

import torch
import torchvision

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("network", choices=["resnet34", "vgg19"])
parser.add_argument("file")
parser.add_argument("--seed", type=int, default=0)
given = parser.parse_args()
torch.manual_seed(given.seed)
torch.save(getattr(torchvision.models, given.network)().state_dict(), given.file)
