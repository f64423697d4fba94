"""Python's side of python_test.cpp.

peer.py make DIR   saves each case in each form as DIR/NAME.pt (or .pickle), what it holds as DIR/NAME.txt
peer.py check DIR  loads each DIR/NAME.ours with weights_only=True and compares it with DIR/NAME.txt
peer.py old DIR    the same of DIR/NAME.old, files of the first years of torch, from GPUs that are not here
"""
import collections
import pathlib
import pickle
import sys

import numpy as np
import torch

CODES = {torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.float8_e5m2: "F8_E5M2", torch.float8_e4m3fn: "F8_E4M3",
         torch.int16: "I16", torch.uint16: "U16", torch.float16: "F16", torch.bfloat16: "BF16", torch.int32: "I32",
         torch.uint32: "U32", torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.uint64: "U64"}


def show_tensor(t):
    raw = t.detach().contiguous().clone().untyped_storage() if t.numel() else b""
    words = [CODES[t.dtype], *map(str, t.shape), "|", *(f"{b:x}" for b in bytes(raw))]
    kind = "parameter" if isinstance(t, torch.nn.Parameter) else "tensor"
    return f"{kind}({' '.join(words)}{' grad' if t.requires_grad else ''})".encode()


def show_array(a):
    code = a.dtype.str.lstrip("<|")
    order = "F" if a.flags.f_contiguous and not a.flags.c_contiguous else "C"
    raw = a.tobytes(order)
    return " ".join([f"array({code}", order, *map(str, a.shape), "|", *(str(b) for b in raw)]).encode() + b")"


def show(v):
    """As show() of build.h."""
    if isinstance(v, torch.Tensor):
        return show_tensor(v)
    if isinstance(v, np.ndarray):
        return show_array(v)
    if isinstance(v, np.generic):
        return show(v.item())
    if v is None or isinstance(v, bool):
        return str(v).encode()
    if isinstance(v, int):
        return b"%d" % v
    if isinstance(v, float):
        return b"%.17gf" % v
    if isinstance(v, str):
        return b"'" + v.encode("utf-8", "surrogatepass") + b"'"
    if isinstance(v, (bytes, bytearray)):
        return b"b'" + v + b"'"
    if isinstance(v, torch.dtype):
        return b"the global '" + str(v).encode() + b"'"
    if isinstance(v, torch.device):
        return b"'" + str(v).encode() + b"'"
    if isinstance(v, (list, tuple)):
        inside = b", ".join(map(show, v))
        return b"[" + inside + b"]" if isinstance(v, list) else b"(" + inside + b")"
    inside = b"{" + b", ".join(show(k) + b": " + show(x) for k, x in v.items()) + b"}"
    if not isinstance(v, collections.OrderedDict):
        return inside
    return b"Ordered" + inside + (b"+" + show(v.__dict__) if v.__dict__ else b"")


def network():
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(1, 4, 5, padding=2), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3))


def stepped(make):
    net = network()
    optimizer = make(net.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.randn(2, 1, 4, 4)).sum().backward()
        optimizer.step()
    return net, optimizer


def cases():
    torch.manual_seed(7)
    net, sgd = stepped(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    _, adam = stepped(lambda p: torch.optim.Adam(p, lr=1e-3))
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(sgd, patience=5)
    plateau.step(1.0)
    base = torch.arange(24.0).reshape(4, 6)
    yield "convnet", net.state_dict()
    yield "sgd", sgd.state_dict()
    yield "adam", adam.state_dict()
    yield "steplr", torch.optim.lr_scheduler.StepLR(sgd, 3).state_dict()
    yield "plateau", plateau.state_dict()
    yield "snapshot", {"MODEL_STATE": net.state_dict(), "EPOCHS_RUN": 3, "RUN_TIME": 12.5, "TRAIN_HISTORY": [0.5, 0.25],
                       "EPOCH_TIMES": [], "LOWEST_LOSS": float("inf"), "OPTIMIZER": adam.state_dict(), "best": None}
    yield "views", [base, base[1:3], base.t(), base[:, 2], base.view(-1)[5:5], base[2, 3], base.expand(2, 4, 6)]
    yield "channels_last", torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    yield "dtypes", {str(d): torch.arange(6).reshape(2, 3).to(d) for d in CODES}
    yield "shapes", (torch.zeros(0), torch.zeros(2, 0, 3), torch.tensor(5), torch.tensor(True), torch.zeros(1, 1, 1))
    yield "parameters", {"p": torch.nn.Parameter(torch.ones(2)), "f": torch.nn.Parameter(torch.ones(2), requires_grad=False),
                         "g": torch.ones(2, requires_grad=True)}
    yield "values", {"ints": (0, -1, 255, 256, 65535, 65536, 2**31 - 1, -2**31, 2**31, 2**63 - 1, -2**63), "b": b"\x00\x7f\x80\xff",
                     "none": b"", "size": torch.Size([2, 3]), "device": torch.device("cuda", 1), "dtype": torch.bfloat16,
                     "floats": [0.1, -0.0, 1e308, float("-inf")], "text": "a\u00e9\U0001f600\n", "deep": [[[[()]]], {}, ({"x": {}},)],
                     5: True, "ordered": collections.OrderedDict(a=1, b=collections.OrderedDict())}
    yield "numpy", {"f": np.float64(0.5), "h": np.float16(0.1), "i": np.int32(-4), "b": np.bool_(True),
                    "a": np.arange(6, dtype=np.int16).reshape(2, 3), "t": np.asfortranarray(np.arange(6, dtype=np.uint8).reshape(2, 3))}
    shared = [1, 2]
    yield "memo", {"a": shared, "b": shared, "c": (shared, shared)}


def forms():
    yield "zip", {}
    for protocol in 3, 4, 5:
        yield f"zip{protocol}", {"pickle_protocol": protocol}
    yield "stream", {"_use_new_zipfile_serialization": False}
    yield "stream4", {"_use_new_zipfile_serialization": False, "pickle_protocol": 4}


def batches():
    data = np.arange(24, dtype=np.uint8).reshape(2, 12)
    yield "batch", {b"batch_label": b"training batch 1 of 5", b"labels": [6, 9], b"data": data, b"filenames": [b"a.png", b"b.png"]}
    yield "meta", {"num_cases_per_batch": 10000, "label_names": ["airplane", "automobile"], "num_vis": 3072}


def make(folder):
    for name, value in cases():
        for form, options in forms():
            torch.save(value, folder / f"{name}-{form}.pt", **options)
            (folder / f"{name}-{form}.txt").write_bytes(show(value))
    for name, value in batches():
        for protocol in 2, 3, 4, 5:
            content = pickle.dumps(value, protocol)
            (folder / f"{name}{protocol}.pickle").write_bytes(content)
            (folder / f"{name}{protocol}.txt").write_bytes(show(value))
            if protocol == 2:  # as numpy 1 wrote it
                (folder / f"{name}1.pickle").write_bytes(content.replace(b"numpy._core", b"numpy.core"))
                (folder / f"{name}1.txt").write_bytes(show(value))


def check(folder):
    files = sorted(folder.glob("*.ours"))
    for path in files:
        value = torch.load(path, weights_only=True)
        assert show(value) == path.with_suffix(".txt").read_bytes(), f"{path.name}: {show(value)[:2000]}"
        torch.load(path, weights_only=True, mmap=True)
        if path.name.startswith("views"):
            assert len({t.untyped_storage().data_ptr() for t in value}) == 1, path.name
        if path.name.startswith("convnet"):
            network().load_state_dict(value)
        for kind in torch.optim.SGD, torch.optim.Adam:
            if path.name.startswith(kind.__name__.lower()):
                kind(network().parameters(), lr=1).load_state_dict(value)
    print(len(files), "files")


def old(folder):
    files = sorted(folder.glob("*.old"))
    for path in files:
        value = torch.load(path, weights_only=True, map_location="cpu")
        expected = path.with_suffix(".txt").read_bytes().replace(b"b'", b"'")  # torch decodes Python 2's str, we keep the bytes
        assert show(value) == expected, f"{path.name}: {show(value)}"
    print(len(files), "files")


torch.set_num_threads(1)
{"make": make, "check": check, "old": old}[sys.argv[1]](pathlib.Path(sys.argv[2]))
