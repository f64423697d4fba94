#!/usr/bin/env python3
"""Prints, for each network: its repr, the names, shapes, dtypes and SHA-256 of its initial values under seed 0, and the SHA-256
of outputs, gradients and buffers after a pass in training and in evaluation mode. models_print.cpp does the same with ours.

    models_peer.py [CASE...]      everything
    models_peer.py --initial      each case's name and SHA-256 of its lines on initial values: how initial_values.txt was made

The tutorials' own networks are written here as their documents give them; the others are torchvision's.
"""
import hashlib
import sys

import torch
import torch.nn as nn
from torch.nn import functional as F
from torchvision.models import resnet18, resnet34, vgg, vgg16, vgg19_bn

from tutorial_resnet import Block, ResNet


class ConvNet(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(1, 16, kernel_size=5, stride=1, padding=2), nn.BatchNorm2d(16), nn.ReLU(),
                                    nn.MaxPool2d(kernel_size=2, stride=2))
        self.layer2 = nn.Sequential(nn.Conv2d(16, 32, kernel_size=5, stride=1, padding=2), nn.BatchNorm2d(32), nn.ReLU(),
                                    nn.MaxPool2d(kernel_size=2, stride=2))
        self.fc = nn.Linear(7 * 7 * 32, num_classes)

    def forward(self, x):
        out = self.layer2(self.layer1(x))
        if out.shape[2:] != (7, 7):  # not in the document, whose images are 28x28
            out = F.adaptive_avg_pool2d(out, (7, 7))
        return self.fc(out.reshape(out.size(0), -1))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.linear_relu_stack = nn.Sequential(nn.Linear(28 * 28, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))

    def forward(self, x):
        return self.linear_relu_stack(self.flatten(x))


class NarrowVGG(vgg.VGG):
    """torchvision's VGG but for its __init__, which is repeated here because it fixes the classifier's width at 4096."""

    def __init__(self, cfg, batch_norm, num_classes, width, init_weights=True):
        nn.Module.__init__(self)
        self.features = vgg.make_layers(vgg.cfgs[cfg], batch_norm)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, width), nn.ReLU(True), nn.Dropout(p=0.5),
            nn.Linear(width, width), nn.ReLU(True), nn.Dropout(p=0.5),
            nn.Linear(width, num_classes))
        for m in self.modules() if init_weights else ():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                nn.init.constant_(m.bias, 0)
            elif isinstance(m, nn.BatchNorm2d):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0, 0.01)
                nn.init.constant_(m.bias, 0)

    def _get_name(self):
        return "VGG"


def designsafe(frozen):
    net = resnet34(weights=None)
    if frozen:
        for parameter in net.parameters():
            parameter.requires_grad = False  # the document sets require_grad, which freezes nothing
    features = net.fc.in_features
    net.fc = nn.Sequential(nn.Linear(features, features), nn.ReLU(), nn.Linear(features, 3))
    return net


def time_budget():
    net = NarrowVGG("E", False, 1000, 64)
    net.classifier = nn.Sequential(
        nn.Linear(25088, 64), nn.ReLU(inplace=True), nn.Dropout(p=0.7, inplace=False),
        nn.Linear(64, 32), nn.ReLU(inplace=True), nn.Dropout(p=0.7, inplace=False),
        nn.Linear(32, 20))
    return net


CASES = {
    "resnet18": (lambda: resnet18(num_classes=10), (3, 3, 50, 45)),
    "resnet34": (lambda: resnet34(), (2, 3, 33, 33)),
    "designsafe": (lambda: designsafe(False), (2, 3, 40, 40)),
    "designsafe-frozen": (lambda: designsafe(True), (2, 3, 40, 40)),
    "cifar": (lambda: ResNet(Block), (2, 3, 32, 32)),
    "cifar-small": (lambda: ResNet(Block, 2), (3, 3, 10, 9)),
    "vgg16": (lambda: NarrowVGG("D", False, 10, 48), (2, 3, 32, 32)),
    "vgg16_bn": (lambda: NarrowVGG("D", True, 10, 48), (2, 3, 32, 32)),
    "vgg19": (lambda: NarrowVGG("E", False, 10, 48), (2, 3, 40, 32)),
    "vgg19_bn": (lambda: NarrowVGG("E", True, 10, 48), (2, 3, 32, 32)),
    "vgg16_bn-unset": (lambda: NarrowVGG("D", True, 10, 48, init_weights=False), (2, 3, 32, 32)),
    "vgg16-whole": (lambda: vgg16(), ()),
    "vgg19_bn-whole": (lambda: vgg19_bn(), ()),
    "time-budget": (lambda: time_budget(), (2, 3, 32, 32)),
    "convnet": (lambda: ConvNet(), (5, 1, 28, 28)),
    "convnet-small": (lambda: ConvNet(7), (5, 1, 13, 16)),
    "quickstart": (lambda: Net(), (4, 1, 28, 28)),
    "toy": (lambda: nn.Linear(20, 1), (6, 20)),
}
DTYPES = {torch.float32: "Float", torch.int64: "Long"}


def sha256(tensor):
    return "None" if tensor is None else hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).hexdigest()


def print_pass(net, images, mode):
    out = net(images)
    print(mode, "output", sha256(out))
    out.backward(torch.randn(out.shape))
    for name, parameter in net.named_parameters():
        print(mode, "gradient", name, sha256(parameter.grad))
    for name, buffer in net.named_buffers():
        print(mode, "buffer", name, sha256(buffer))
    net.zero_grad()


def fresh(name):
    torch.manual_seed(0)
    return CASES[name][0]()


def initial(net):
    return f"{net}\n" + "".join(f"{key} ({''.join(f'{n},' for n in value.shape)}) {DTYPES[value.dtype]} {sha256(value)}\n"
                                for key, value in net.state_dict().items())


def print_digests():
    print(f"capability {torch.backends.cpu.get_cpu_capability()}")
    for name in CASES:
        print(name, hashlib.sha256(initial(fresh(name)).encode()).hexdigest())


def print_case(name):
    net, shape = fresh(name), CASES[name][1]
    print(f"== {name}\n{initial(net)}", end="")
    if not shape:
        return
    torch.manual_seed(1)
    images = torch.randn(shape)
    print_pass(net, images, "train")
    net.eval()
    print_pass(net, images, "eval")


def main():
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--initial"]:
        return print_digests()
    for name in sys.argv[1:] or CASES:
        print_case(name)


if __name__ == "__main__":
    main()
