"""Talks to the program `image_probe` (probe.cpp)."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[4]
PILLOW, TORCHVISION = "12.0.0", "0.26.0"


def under_right_python():
    """Starts this program anew under the Python that has torchvision, unless this is it already."""
    if os.environ.get("LOCKSTEP_IMAGE_PEER"):
        return
    wanted = os.environ.get("LOCKSTEP_IMAGE_PYTHON") or subprocess.run(
        [ROOT / "tools/find_python"], capture_output=True, text=True).stdout.strip()
    if not wanted:
        print("skipped: no Python with torch (tools/find_python), and LOCKSTEP_IMAGE_PYTHON is not set")
        sys.exit(77)
    os.environ["LOCKSTEP_IMAGE_PEER"] = "1"
    os.execv(wanted, [wanted, "-W", "ignore", *sys.argv])


def versions():
    """What is missing, as a sentence, or nothing."""
    try:
        import PIL
        import torch
        import torchvision
    except ImportError as error:
        return f"{sys.executable}: {error}"
    found = PIL.__version__, torchvision.__version__.split("+")[0]
    torch.set_num_threads(1)
    if found != (PILLOW, TORCHVISION):
        return f"{sys.executable} has Pillow {found[0]} and torchvision {found[1]}, needed are {PILLOW} and {TORCHVISION}"
    return ""


class Probe:
    def __init__(self, program):
        import numpy  # not before it is known which Python this is
        self.numpy = numpy
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, *fields):
        """(height, width, bytes), or the error's text."""
        self.process.stdin.write("\t".join(map(str, fields)).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline().decode().rstrip("\n")
        if not line:
            raise SystemExit(f"the probe ended on {fields}: {self.process.wait()}")
        if line.startswith("error "):
            return line[6:]
        height, width, count = map(int, line.split())
        return height, width, self.process.stdout.read(count)

    def picture(self, *fields):
        return self._array(self.numpy.uint8, lambda h, w: (h, w, 3), fields)

    def values(self, *fields):
        return self._array(self.numpy.float32, lambda h, w: (3, h, w), fields)

    def words(self, *fields):
        return self._array(self.numpy.uint32, lambda h, w: (w,), fields)

    def _array(self, dtype, shape, fields):
        answer = self.ask(*fields)
        if isinstance(answer, str):
            return answer
        height, width, data = answer
        return self.numpy.frombuffer(data, dtype).reshape(shape(height, width))

    def close(self):
        self.process.stdin.close()
        return self.process.wait()
