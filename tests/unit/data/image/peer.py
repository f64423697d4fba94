"""Our decoding and transforms beside Pillow's and torchvision's, byte for byte: peer.py PROBE

Runs under $LOCKSTEP_IMAGE_PYTHON, or what tools/find_python finds. Photographs and CIFAR are read from $LOCKSTEP_TEST_DATA or
../shared/data (photos-200.tar, cifar10-jpeg.tar.zst) where they are there. `--all [I/N]`: all of CIFAR's pictures (the I-th
of N parts), each as for training and by one other list.
Exit 0: equal; 1: not, said where; 77: skipped, said why.
"""
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile

from probe import ROOT, Probe, under_right_python, versions

if __name__ == "__main__":
    under_right_python()
    if why := versions():
        print(f"skipped: {why}")
        sys.exit(77)

import numpy as np
import torch
from PIL import Image
from torchvision import transforms as T

import pictures

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PADDINGS = ["constant", "edge", "reflect", "symmetric"]


def step(word):
    """The transform that spec.h makes of the same word."""
    name, _, rest = word.partition(":")
    n = [float(part) for part in rest.split(",")] if rest else []
    n += [0] * (8 - len(n))
    size = int(n[0]), int(n[1])
    if name == "Resize":
        return T.Resize(size) if size[1] else T.Resize(size[0], max_size=int(n[2]) or None)
    if name == "CenterCrop":
        return T.CenterCrop(size)
    if name == "RandomCrop":
        return T.RandomCrop(size, int(n[2]) or None, bool(n[3]), int(n[4]), PADDINGS[int(n[5])])
    if name == "Flip":
        return T.RandomHorizontalFlip(n[0])
    if name == "RandomResizedCrop":
        more = {}
        if n[2]:
            more["scale"] = (n[2], n[3])
        if n[4]:
            more["ratio"] = (n[4], n[5])
        return T.RandomResizedCrop(size, **more)
    if name == "AutoAugment":
        return T.AutoAugment(list(T.AutoAugmentPolicy)[int(n[0])])
    return {"ToTensor": T.ToTensor(), "Normalize": T.Normalize(MEAN, STD)}[word]


class Compare:
    def __init__(self, probe):
        self.probe, self.compared, self.differ = probe, 0, []

    def same(self, ours, theirs, *what):
        self.compared += 1
        if isinstance(ours, str) or ours.shape != theirs.shape or ours.tobytes() != theirs.tobytes():
            detail = ours if isinstance(ours, str) else f"{ours.shape} {theirs.shape}"
            if not isinstance(ours, str) and ours.shape == theirs.shape:
                wrong = ours != theirs
                detail += f" {wrong.sum()} differ, first at {np.argwhere(wrong)[0].tolist()}"
            self.differ.append((*what, detail))

    def decode(self, path):
        self.same(self.probe.picture("decode", path), np.asarray(Image.open(path).convert("RGB")), "decode", path)

    def cut(self, path, scratch):
        """Files that lack their last bytes: whatever Pillow refuses we refuse, and what we accept is equal."""
        data = path.read_bytes()
        for missing in (1, 2, 3, 20, len(data) // 2):
            scratch.write_bytes(data[:-missing])
            ours = self.probe.picture("decode", scratch)
            try:
                theirs = np.asarray(Image.open(scratch).convert("RGB"))
            except (OSError, SyntaxError):
                self.same(np.array(isinstance(ours, str)), np.array(True), "cut by", missing, path)
            else:
                if not (isinstance(ours, str) and missing <= 2):  # Pillow, fed in blocks, does now and then without the marker
                    self.same(ours, theirs, "cut by", missing, path)

    def regions(self, path, count, draw):
        whole = np.asarray(Image.open(path).convert("RGB"))
        height, width = whole.shape[:2]
        for _ in range(count):
            w, h = draw.randint(1, width), draw.randint(1, height)
            left, top = draw.randint(0, width - w), draw.randint(0, height - h)
            if draw.random() < .2:
                left, w = 0, width
            if draw.random() < .2:
                top = height - h
            ours = self.probe.picture("region", f"{left},{top},{w},{h}", path)
            self.same(ours, whole[top:top + h, left:left + w], "region", left, top, w, h, path)

    def transforms(self, spec, key, path):
        torch.manual_seed(key)
        try:
            made = T.Compose([step(word) for word in spec.split()])(Image.open(path).convert("RGB"))
        except ValueError:  # a crop that does not fit
            refused = isinstance(self.probe.picture("picture", spec.split(" ToTensor")[0], key, path), str)
            return self.same(np.array(refused), np.array(True), "refused", spec, path)
        if "ToTensor" in spec:
            self.same(self.probe.values("values", spec, key, path), made.numpy(), spec, key, path)
        else:
            self.same(self.probe.picture("picture", spec, key, path), np.asarray(made), spec, key, path)


def streams(compare):
    for key in (0, 1, 5489, 2**31, 2**32 - 1, 123456789):
        ours = compare.probe.words("draws", key, 700)
        torch.manual_seed(key)
        theirs = np.array([torch.randint(0, 2**24, (1,)).item() for _ in range(700)], np.uint32)
        compare.same(ours % 2**24, theirs, "draws", key)


AUGMENT_SPECS = [f"AutoAugment:{policy}" for policy in range(3)]
PHOTO_SPECS = [
    "Resize:244,244 ToTensor", "Resize:256 CenterCrop:224,224 ToTensor Normalize", "Resize:300,0,320",
    "RandomResizedCrop:224,224 Flip:0.5 ToTensor Normalize", "Resize:64 RandomCrop:56,56,8 Flip:0.5 ToTensor",
    "CenterCrop:500,120 ToTensor", "RandomResizedCrop:96,80,0.3,0.9,0.5,2.5",
    "AutoAugment:0 Resize:244,244 ToTensor", "RandomResizedCrop:224,224 Flip:0.5 AutoAugment:0 ToTensor Normalize",
    "Flip:0.3 RandomCrop:200,700,0,1,17,0 Flip:0.7 ToTensor Normalize",
]
SMALL_SPECS = [
    "RandomCrop:32,32,4 Flip:0.5 ToTensor Normalize", "RandomCrop:28,30,3,0,0,2 Flip:0.5", "RandomCrop:40,40,2,1,9,3",
    "RandomCrop:28,28,3,0,0,1 Resize:224,224 ToTensor", "CenterCrop:20,20 RandomCrop:20,20,4 CenterCrop:26,26",
    "Resize:224 ToTensor Normalize", "Flip:1 CenterCrop:33,9 ToTensor", "RandomResizedCrop:32,32 ToTensor Normalize",
    "RandomCrop:32,32,4 Flip:0.5 AutoAugment:1 ToTensor Normalize", "Resize:32,17", "Resize:17,32", "Resize:32,32 ToTensor",
]


def augmented(compare, made, draw):
    """Each pair of each policy with both signs and probabilities, many times over."""
    for path in [p for p in made if "jpeg-420-q75-p0" in p.name or p.name in ("png-3-4-0-33x18.png", "png-large.png")]:
        for spec in AUGMENT_SPECS:
            for _ in range(40 if "large" in path.name else 400):
                compare.transforms(spec, draw.getrandbits(32), path)


def members(source, wanted, folder):
    """Extracts the members that `wanted` (a function of the number) picks; pictures' paths."""
    if not source:
        return []
    if str(source).endswith(".zst"):
        unpack = subprocess.Popen(["zstd", "-dc", source], stdout=subprocess.PIPE)
        tar = tarfile.open(fileobj=unpack.stdout, mode="r|")
    else:
        tar = tarfile.open(source)
    paths, number = [], 0
    for member in tar:
        if member.isfile() and pathlib.Path(member.name).suffix.lower() in (".jpg", ".jpeg", ".png"):
            if wanted(number):
                path = folder / f"{len(paths):05d}-{pathlib.Path(member.name).name}"
                path.write_bytes(tar.extractfile(member).read())
                paths.append(path)
            number += 1
    return paths


MISSING = []  # archives that are not there


def archive(name):
    path = pathlib.Path(os.environ.get("LOCKSTEP_TEST_DATA") or ROOT.parent / "shared/data") / name
    if not path.exists():
        MISSING.append(str(path))
        return None
    return path


def all_of_cifar(compare, folder, part, parts):
    """Every picture: decoded, cropped and flipped as for training, and by one of the other lists in turn. The i-th of `parts`."""
    draw = random.Random(part)
    for number, path in enumerate(members(archive("cifar10-jpeg.tar.zst"), lambda i: i % parts == part, folder)):
        compare.decode(path)
        for spec in {SMALL_SPECS[0], SMALL_SPECS[number % len(SMALL_SPECS)]}:
            compare.transforms(spec, draw.getrandbits(32), path)
        path.unlink()
        if number % 5000 == 4999:
            print(f"{number + 1} pictures: {compare.compared} compared, {len(compare.differ)} differ", flush=True)


def run(compare, folder):
    draw = random.Random(1)
    streams(compare)
    pictures.write_pngs(folder)
    pictures.write_jpegs(folder)
    made = sorted(folder.glob("*.jpg")) + sorted(folder.glob("*.png"))
    for path in made:
        compare.decode(path)
        compare.regions(path, 6, draw)
    for directory, name, wanted, specs in (("photos", "photos-200.tar", lambda i: True, PHOTO_SPECS),
                                           ("cifar", "cifar10-jpeg.tar.zst", lambda i: i % 300 == 0, SMALL_SPECS)):
        (folder / directory).mkdir()
        for path in members(archive(name), wanted, folder / directory):
            compare.decode(path)
            compare.cut(path, folder / "cut")
            compare.regions(path, 3, draw)
            for spec in specs:
                compare.transforms(spec, draw.getrandbits(32), path)
    augmented(compare, made, draw)
    for path in [p for p in made if "61x47" in p.name or "33x18" in p.name]:
        for spec in SMALL_SPECS[:5] + PHOTO_SPECS[:4]:
            compare.transforms(spec, draw.getrandbits(32), path)


def main():
    with tempfile.TemporaryDirectory() as folder:
        compare = Compare(Probe(sys.argv[1]))
        if "--all" in sys.argv:
            part, parts = (sys.argv + ["0/1"])[sys.argv.index("--all") + 1].split("/")
            all_of_cifar(compare, pathlib.Path(folder), int(part), int(parts))
        else:
            run(compare, pathlib.Path(folder))
    for line in compare.differ[:20]:
        print(*line)
    print(f"{compare.compared} compared, {len(compare.differ)} differ")
    if compare.probe.close() != 0 or compare.differ:
        return 1
    if MISSING:
        print(f"skipped in part: not there: {', '.join(MISSING)}; set LOCKSTEP_TEST_DATA to a folder that has them")
    return 77 if MISSING else 0


if __name__ == "__main__":
    sys.exit(main())
