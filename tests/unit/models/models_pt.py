"""`.pt` files of every network, both ways: its state_dict is saved in the zip form and in the one before torch 1.6, models_print reads
each and writes it again, and that has to be the same state_dict, loaded strictly, with the same bits.

    models_pt.py PROGRAM      prints a line for each network
"""
import pathlib
import subprocess
import sys
import tempfile

import torch

from models_peer import CASES

# All of the header's networks; those of the full classifier's width are left out for their size.
NAMES = [name for name in CASES if not name.endswith(("-whole", "-frozen", "-unset", "-small"))]
FORMS = {"zip": {}, "stream": {"_use_new_zipfile_serialization": False}}


def trained(net):
    """Buffers that are no initial values."""
    for buffer in net.buffers():
        buffer.copy_(torch.rand(buffer.shape) if buffer.is_floating_point() else torch.tensor(2**40 + 1))
    return net


def same(ours, theirs):
    assert list(ours) == list(theirs), "other names, or another order"
    assert ours._metadata == theirs._metadata, f"{ours._metadata} is not {theirs._metadata}"
    for name, tensor in theirs.items():
        other = ours[name]
        assert (other.dtype, other.shape, other.stride()) == (tensor.dtype, tensor.shape, tensor.stride()), name
        assert torch.equal(other, tensor), name


def round_trip(program, name, folder):
    torch.manual_seed(1)
    net = trained(CASES[name][0]())
    files = []
    for form, options in FORMS.items():
        files += [folder / f"{form}.pt", folder / f"{form}-ours.pt"]
        torch.save(net.state_dict(), files[-2], **options)
    subprocess.run([program, "--pt", name, *files], check=True)
    for ours in files[1::2]:
        saved = torch.load(ours, weights_only=True)
        same(saved, net.state_dict())
        assert str(net.load_state_dict(saved, strict=True)) == "<All keys matched successfully>"
    return len(net.state_dict())


def main():
    torch.set_num_threads(1)
    with torch.no_grad():
        for name in NAMES:
            with tempfile.TemporaryDirectory() as folder:
                print(name, round_trip(sys.argv[1], name, pathlib.Path(folder)), "tensors", flush=True)


if __name__ == "__main__":
    main()
