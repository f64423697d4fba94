"""Writes golden/: a few small pictures and the SHA-256 of what Pillow 12.0.0 and torchvision 0.26.0 make of them, for golden_test.cpp.

make_golden.py [FOLDER]. Lines of golden.tsv: kind, transforms, key, file, height, width, hash (see probe.cpp).
"""
import hashlib
import pathlib
import shutil
import sys
import tempfile

from probe import versions

if why := versions():
    sys.exit(why)

import numpy as np
import torch
from PIL import Image
from torchvision import transforms as T

import pictures
from peer import PHOTO_SPECS, SMALL_SPECS, step

FILES = ["jpeg-420-q75-p0-61x47.jpg", "jpeg-422-q75-p1-61x47.jpg", "jpeg-444-q30-p0-61x47.jpg", "jpeg-grey-16x33.jpg",
         "jpeg-cmyk-17x9.jpg", "jpeg-restart-61x47.jpg", "jpeg-exif-17x9.jpg", "png-0-1-0-33x18.png", "png-0-16-1-33x18.png",
         "png-3-4-1-33x18.png", "png-3-8-0-7x5.png", "png-2-8-0-33x18.png", "png-4-16-0-7x5.png", "png-6-8-1-33x18.png"]


def results():
    for name in FILES:
        yield "picture", "", 0, name
    for number, spec in enumerate(SMALL_SPECS + PHOTO_SPECS[:6]):
        for name in (FILES[0], FILES[11]):
            yield "values" if "ToTensor" in spec else "picture", spec, 1000 + number, name
    for policy in range(3):
        for key in range(120):
            yield "picture", f"AutoAugment:{policy}", key, FILES[0]


def main(folder):
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made, open(folder / "golden.tsv", "w") as out:
        pictures.write_pngs(pathlib.Path(made))
        pictures.write_jpegs(pathlib.Path(made))
        for name in FILES:
            shutil.copy(pathlib.Path(made) / name, folder / name)
        for kind, spec, key, name in results():
            torch.manual_seed(key)
            picture = Image.open(folder / name).convert("RGB")
            try:
                value = np.asarray(T.Compose([step(word) for word in spec.split()])(picture))
            except ValueError:
                continue  # a crop that does not fit
            height, width = value.shape[:2] if kind == "picture" else value.shape[1:]
            print(kind, spec, key, name, height, width, hashlib.sha256(value.tobytes()).hexdigest(), sep="\t", file=out)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "golden")
