"""Pictures without a library."""
import random
import struct
import zlib


def png(width, height, pixels):
    """Of so many rows of red, green and blue bytes."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + pixels[3 * width * y:3 * width * (y + 1)] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def drawn(seed):
    """A slope of colours with noise, wider than high."""
    draw = random.Random(seed)
    width, height = draw.randint(50, 80), draw.randint(40, 50)
    at = [draw.random() for _ in range(6)]
    pixels = bytearray()
    for y in range(height):
        for x in range(width):
            for c in range(3):
                value = 255 * (at[c] * x / width + (1 - at[c]) * at[c + 3] * y / height) + draw.randint(-20, 20)
                pixels.append(max(0, min(255, int(value))))
    return png(width, height, bytes(pixels))
