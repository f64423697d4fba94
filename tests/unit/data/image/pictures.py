"""Pictures of every kind that decoding has to know, written by Pillow or by hand."""
import struct
import zlib

import numpy as np
from PIL import Image


def scene(width, height, seed):
    """Smooth colours, edges and noise, [height, width, 3]."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    waves = [127 + 120 * np.sin(x * random.uniform(.02, .6) + y * random.uniform(.02, .6) + c) for c in range(3)]
    picture = np.stack(waves, -1) + random.normal(0, 12, (height, width, 3))
    picture[height // 3:height // 2, width // 4:width // 2] = random.integers(0, 256, 3)
    return np.clip(picture, 0, 255).astype(np.uint8)


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _packed(samples, depth):
    """[rows, columns * channels] integers to PNG rows, unfiltered."""
    rows = b""
    for row in samples:
        if depth == 16:
            rows += b"\0" + row.astype(">u2").tobytes()
        elif depth == 8:
            rows += b"\0" + row.astype(np.uint8).tobytes()
        else:
            bits = ((row[:, None] >> np.arange(depth)[::-1]) & 1).astype(np.uint8).ravel()
            rows += b"\0" + np.packbits(bits).tobytes()
    return rows


def png(samples, colour_type, depth, interlaced=False, chunks=()):
    """A PNG file's bytes. samples: [height, width, channels] below 2 ** depth."""
    height, width, channels = samples.shape
    passes = ADAM7 if interlaced else [(0, 0, 1, 1)]
    data = b""
    for left, top, across, down in passes:
        part = samples[top::down, left::across]
        if part.size:
            data += _packed(part.reshape(part.shape[0], -1), depth)
    head = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, int(interlaced))
    extra = b"".join(_chunk(kind, content) for kind, content in chunks)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + extra + _chunk(b"IDAT", zlib.compress(data)) + _chunk(b"IEND", b"")


def write_pngs(folder):
    random = np.random.default_rng(7)
    palette = random.integers(0, 256, 768, dtype=np.uint8)
    kinds = [(0, d, 1) for d in (1, 2, 4, 8, 16)] + [(3, d, 1) for d in (1, 2, 4, 8)] + [
        (c, d, n) for c, n in ((2, 3), (4, 2), (6, 4)) for d in (8, 16)]
    for colour_type, depth, channels in kinds:
        for interlaced in (False, True):
            for width, height in ((1, 1), (7, 5), (33, 18)):
                samples = random.integers(0, 2 ** depth, (height, width, channels))
                if depth == 16:
                    samples[::2] //= 200  # 16-bit grey is clipped at 255: have values on both sides
                chunks = []
                if colour_type == 3:
                    entries = min(256, 2 ** depth) * 3 // 4 or 1  # some indices have no entry
                    chunks.append((b"PLTE", palette[:3 * entries].tobytes()))
                    chunks.append((b"tRNS", bytes(range(min(entries, 3)))))
                if colour_type == 0:
                    chunks.append((b"tRNS", b"\0\1"))
                chunks.insert(0, (b"gAMA", struct.pack(">I", 45455)))
                path = folder / f"png-{colour_type}-{depth}-{int(interlaced)}-{width}x{height}.png"
                path.write_bytes(png(samples, colour_type, depth, interlaced, chunks))
    scene_file = Image.fromarray(scene(700, 900, 3))
    scene_file.save(folder / "png-large.png")


def write_jpegs(folder, sizes=((1, 1), (8, 8), (17, 9), (16, 33), (61, 47), (130, 95))):
    for width, height in sizes:
        picture = Image.fromarray(scene(width, height, width * 1000 + height))
        for subsampling in ("4:4:4", "4:2:2", "4:2:0", "4:4:0", "4:1:1"):
            for quality in (30, 75, 95):
                for progressive in (False, True):
                    name = f"jpeg-{subsampling.replace(':', '')}-q{quality}-p{int(progressive)}-{width}x{height}.jpg"
                    if subsampling == "4:4:0":
                        continue  # Pillow cannot write it
                    picture.save(folder / name, quality=quality, subsampling=subsampling, progressive=progressive)
        picture.convert("L").save(folder / f"jpeg-grey-{width}x{height}.jpg")
        picture.convert("CMYK").save(folder / f"jpeg-cmyk-{width}x{height}.jpg")
        picture.save(folder / f"jpeg-restart-{width}x{height}.jpg", restart_marker_blocks=3)
        picture.save(folder / f"jpeg-rgb-{width}x{height}.jpg", keep_rgb=True)
        exif = Image.Exif()
        exif[0x0112] = 6
        picture.save(folder / f"jpeg-exif-{width}x{height}.jpg", exif=exif)
