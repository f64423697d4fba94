"""What share of MNIST's test set the network in a checkpoint file of tutorial 000's trainer gets right: mlp_accuracy.py FILE DATA"""
import sys

import torch
from torch.nn import functional
from torchvision import datasets

weights = torch.load(sys.argv[1], weights_only=True)["model_state_dict"]
test = datasets.MNIST(sys.argv[2], train=False)
values = test.data.float().flatten(1) / 255
layers = list(weights.values())
for number in range(0, len(layers), 2):
    values = functional.linear(values, layers[number], layers[number + 1])
    if number + 2 < len(layers):
        values = values.relu()
print((values.argmax(1) == test.targets).float().mean(dtype=torch.float64).item())
