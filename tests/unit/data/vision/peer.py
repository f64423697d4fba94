"""Our sets of pictures beside torchvision's, sample for sample: peer.py PROBE

ImageFolder, CIFAR10, CIFAR100 (pickles of today's numpy, of the old one in the official files' way, and binary files) and
random_split. Runs under $LOCKSTEP_IMAGE_PYTHON, or what tools/find_python finds.
Exit 0: equal; 1: not, said where; 77: skipped, said why.
"""
import array
import hashlib
import pathlib
import pickle
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "image"))
from probe import under_right_python, versions

if __name__ == "__main__":
    under_right_python()
    if why := versions():
        print(f"skipped: {why}")
        sys.exit(77)

import numpy as np
import torch
import torchvision
from PIL import Image
from torchvision import transforms as T

NORMALIZE = T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
FOLDER = T.Compose([T.AutoAugment(), T.Resize((40, 30)), T.ToTensor()])
# Labels as people save them again, one kind for each file.
KINDS = (list, lambda v: np.array(v, ">i4"), tuple, lambda v: np.array(v, np.uint8), lambda v: array.array("i", v), lambda v: np.array(v))
CIFAR = T.Compose([T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor(), NORMALIZE])


def ours(probe, *fields):
    lines = subprocess.run([probe, *map(str, fields)], capture_output=True, text=True, check=True).stdout.splitlines()
    classes = [line.split("\t")[1] for line in lines if line.startswith("class\t")]
    return classes, [line.split("\t") for line in lines if not line.startswith("class\t")]


def same(what, probed, classes, theirs, transform):
    """`theirs`: (name or None, label, picture) of each sample."""
    our_classes, samples = probed
    assert our_classes == classes, (what, our_classes, classes)
    assert len(samples) == len(theirs) > 0, (what, len(samples), len(theirs))
    for (name, label, key, digest), (their_name, their_label, picture) in zip(samples, theirs):
        assert their_name in (None, name), (what, name, their_name)
        assert int(label) == their_label, (what, name, label, their_label)
        torch.manual_seed(int(key))
        values = transform(picture).contiguous().numpy()
        assert hashlib.sha256(values.tobytes()).hexdigest() == digest, (what, name)
    print(f"{what}: {len(samples)} samples equal")


def folder(probe, root):
    random = np.random.default_rng(0)
    for name in ("dog/2.png", "dog/10.png", "dog/x/1.jpg", "dog/x-y/1.JPEG", "dog/x/z/1.png", "Cat/ä.jpg", "Cat/b.png", "cat-1/.png"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        size = random.integers(20, 90, 2)
        Image.fromarray(random.integers(0, 256, (*size, 3), np.uint8)).save(
            path, "PNG" if name.lower().endswith("png") else "JPEG")
    (root / "dog/readme.txt").write_text("x")
    theirs = torchvision.datasets.ImageFolder(root)
    samples = [(path, label, theirs.loader(path)) for path, label in theirs.samples]
    same("ImageFolder", ours(probe, "folder", root, "train", 5, 2), theirs.classes, samples, FOLDER)


def old_style(data):
    """As the official files are: protocol 2, numpy.core, keys that are str of Python 2 (read as bytes)."""
    file = pickle.dumps(data, protocol=2).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    for key in map(str.encode, data):
        file = file.replace(b"X" + struct.pack("<I", len(key)) + key, b"U" + bytes([len(key)]) + key)
    return file


def cifar(probe, root, fine):
    kind, classes = ("cifar100", 100) if fine else ("cifar10", 10)
    random = np.random.default_rng(1)
    names = [f"class {i}" for i in range(classes)]
    folder = root / ("cifar-100-python" if fine else "cifar-10-batches-py")
    binary = root / "binary" / ("cifar-100-binary" if fine else "cifar-10-batches-bin")
    folder.mkdir(parents=True)
    binary.mkdir(parents=True)
    files = ["train", "test"] if fine else [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    for i, name in enumerate(files):
        data = random.integers(0, 256, (7, 3072), np.uint8)
        labels = [int(label) for label in random.integers(0, classes, 7)]
        coarse = [label // 5 for label in labels]
        batch = {"batch_label": "a batch", "fine_labels" if fine else "labels": KINDS[i % len(KINDS)](labels),
                 "data": data if i % 2 else np.asfortranarray(data), "filenames": ["x.png"] * 7}
        (folder / name).write_bytes(old_style(batch) if i % 3 == 0 else pickle.dumps(batch, protocol=2 + i % 4))
        head = np.array([coarse, labels] if fine else [labels], np.uint8).T
        (binary / f"{name}.bin").write_bytes(np.concatenate([head, data], 1).tobytes())
    meta = {("fine_label_names" if fine else "label_names"): names}
    (folder / ("meta" if fine else "batches.meta")).write_bytes(pickle.dumps(meta, protocol=2))
    (binary / ("fine_label_names.txt" if fine else "batches.meta.txt")).write_text("\n".join(names) + "\n")

    theirs = torchvision.datasets.CIFAR100 if fine else torchvision.datasets.CIFAR10
    theirs = type("Unchecked", (theirs,), {"_check_integrity": lambda self: True, "_load_meta": lambda self: None})
    for split in ("train", "test"):
        samples = [(None, label, picture) for picture, label in theirs(root, train=split == "train")]
        for where in (root, root / "binary"):
            probed = ours(probe, kind, where, split, 3, 9)
            same(f"{kind} {split} in {where.name}", probed, names, samples, CIFAR)


def splits(probe):
    for sizes in ([7, 2, 1], [0.8, 0.2], [0.5, 0.25, 0.25], [101]):
        n = 101 if isinstance(sizes[0], float) else sum(sizes)
        for seed in (0, 42, 2**63):
            out = subprocess.run([probe, "split", str(n), str(seed), *map(str, sizes)], capture_output=True, text=True, check=True)
            found = [[int(word) for word in line.split()] for line in out.stdout.splitlines()]
            generator = torch.Generator().manual_seed(seed)
            parts = torch.utils.data.random_split(range(n), sizes, generator)
            assert found == [list(part.indices) for part in parts], (sizes, seed)
    print("random_split: equal")


def main():
    probe = sys.argv[1]
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        folder(probe, root / "pictures")
        cifar(probe, root / "ten", fine=False)
        cifar(probe, root / "hundred", fine=True)
        splits(probe)


if __name__ == "__main__":
    main()
