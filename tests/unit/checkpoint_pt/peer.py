"""Python's side of python_test.cpp.

peer.py odd DIR    the same of what has no form in C++; each file has {"weight": a tensor} beside it
peer.py make DIR   saves each case in each form as DIR/NAME.pt (or .pickle), what it holds as DIR/NAME.txt
peer.py check DIR  loads each DIR/NAME.ours with weights_only=True and compares it with DIR/NAME.txt
peer.py old DIR    the same of DIR/NAME.old, files of the first years of torch, from GPUs that are not here
"""
import argparse
import collections
import dataclasses
import datetime
import decimal
import functools
import pathlib
import pickle
import re
import sys
import uuid
import warnings

import numpy as np
import torch

CODES = {torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.float8_e5m2: "F8_E5M2", torch.float8_e4m3fn: "F8_E4M3",
         torch.int16: "I16", torch.uint16: "U16", torch.float16: "F16", torch.bfloat16: "BF16", torch.int32: "I32",
         torch.uint32: "U32", torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.uint64: "U64"}


def leaf(text):
    return f"<{text}>".encode()


OTHER_CODES = {torch.complex64: "C64", torch.complex128: "C128", torch.float8_e8m0fnu: "F8_E8M0",
               torch.float8_e4m3fnuz: "F8_E4M3FNUZ", torch.float8_e5m2fnuz: "F8_E5M2FNUZ"}


def show_other(t):
    code = CODES.get(t.dtype) or OTHER_CODES.get(t.dtype) or str(t.dtype).split(".")[-1]
    shape = [t.size(0)] if t.is_nested else list(t.shape)
    kind = "nested" if t.is_nested else "meta" if t.is_meta else "negated view" if t.is_neg() else str(t.layout).split(".")[-1]
    return leaf(f"{code}{'' if kind == 'strided' else f' ({kind})'} {shape}")


def is_other(t):
    return t.dtype not in CODES or t.is_nested or t.is_meta or t.is_neg() or t.layout != torch.strided


def show_tensor(t):
    if is_other(t):
        return show_other(t)
    raw = t.detach().contiguous().clone().untyped_storage() if t.numel() else b""
    words = [CODES[t.dtype], *map(str, t.shape), "|", *(f"{b:x}" for b in bytes(raw))]
    kind = "parameter" if isinstance(t, torch.nn.Parameter) else "tensor"
    return f"{kind}({' '.join(words)}{' grad' if t.requires_grad else ''})".encode()


def show_array(a):
    if a.dtype.kind in "iuf":  # of both byte orders
        a = a.astype(a.dtype.newbyteorder("<"))
    code = a.dtype.str.lstrip("<|")
    if code not in "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8".split():
        code = ("M8" if code[0] == "M" else "m8" if code[0] == "m" else "O8" if code == "O" else code)
        return leaf(f"a numpy array of dtype '{code}'")
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
    if type(v) not in PLAIN:
        return leaf(f"{type(v).__module__}.{type(v).__qualname__}")
    if v is None or isinstance(v, bool):
        return str(v).encode()
    if isinstance(v, int):
        return b"%d" % v if -2**63 <= v < 2**63 else leaf(f"the int {v}")
    if isinstance(v, complex):
        return leaf(f"the complex number {v.real:g}{v.imag:+g}j")
    if isinstance(v, (set, frozenset)):
        return type(v).__name__.encode() + b"(" + b", ".join(map(show, v)) + b")"
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


PLAIN = {type(None), bool, int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict, torch.dtype, torch.device,
         torch.Size, collections.OrderedDict, collections.Counter, collections.defaultdict}


@dataclasses.dataclass
class Point:
    x: int = 1
    y: list = None


class Slots:
    __slots__ = ("a",)

    def __init__(self):
        self.a = {"a": self}


class Ordered(collections.OrderedDict):
    pass


class Ints(list):
    pass


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.register_buffer("freqs", torch.zeros(2, dtype=torch.complex64))
        self.me = [self]


Pair = collections.namedtuple("Pair", "a b")


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


def schedulers(optimizer):
    make = torch.optim.lr_scheduler
    return [make.StepLR(optimizer, 2), make.MultiStepLR(optimizer, [1, 2]), make.ExponentialLR(optimizer, 0.9),
            make.CosineAnnealingLR(optimizer, 3), make.CosineAnnealingWarmRestarts(optimizer, 3), make.LambdaLR(optimizer, lambda epoch: 1),
            make.OneCycleLR(optimizer, 1, 10), make.CyclicLR(optimizer, 0.1, 1), make.PolynomialLR(optimizer),
            make.SequentialLR(optimizer, [make.ConstantLR(optimizer), make.LinearLR(optimizer)], [2]),
            make.ReduceLROnPlateau(optimizer)]


# "odd" objects of Python: (name, value[, what it is shown as])
def odd_values():
    yield "objects", [argparse.Namespace(lr=0.1, net=Net()), datetime.datetime(2020, 1, 1), datetime.timedelta(1), pathlib.PurePosixPath("/a"),
                      decimal.Decimal("1.5"), uuid.UUID(int=5), functools.partial(int, base=2), Point(1, [2]), Slots(), Ordered(a=1),
                      Ints([1]), Pair(1, 2), collections.deque([1, (2,)], 3), Net(), torch.optim.SGD(Net().parameters(), lr=1)]
    yield "functions", [torch.nn.functional.relu, re.compile("a+")], b"[<torch.nn.functional.relu>, <re._compile>]"
    yield "numbers", [1.5 - 2j, 2**63, -2**63 - 1, 2**64 + 5, 17982163893102248868, -2**100]
    yield "sets", [{3, 5, 8}, frozenset([1]), set(), bytearray(b"a\xff"), bytearray(), collections.Counter([10, 20, 10]),
                   collections.defaultdict(list, a=[1])]
    yield "keys", {(0, 1): 5, 0.5: 1, None: 2, True: 3, frozenset([1]): 4, 2**70: 6, 1j: 7, b"a": 8, "a": 9, Pair(1, 2): 10, (1, (2, 3)): torch.ones(1)}
    a, b, c = [], {}, ([],)
    a.append(a)
    b["b"] = b
    c[0].append(c)
    yield "cycles", [a, b, c], b"[[<a list within itself>], {'b': <a dict within itself>}, ([<a tuple within itself>])]"
    yield "schedulers", [s.state_dict() for s in schedulers(torch.optim.SGD(network().parameters(), lr=0.1))]
    for kind in "Adagrad Adadelta Adamax AdamW NAdam RAdam RMSprop Rprop ASGD LBFGS".split():
        net, optimizer = stepped(lambda p: getattr(torch.optim, kind)(p, lr=0.01)) if kind != "LBFGS" else (0, torch.optim.LBFGS(network().parameters()))
        yield kind, optimizer.state_dict()


def odd_tensors():
    a = torch.arange(6.0).reshape(2, 3)
    p, t = torch.nn.Parameter(torch.ones(2)), torch.ones(2)
    p.is_head, t.note = True, Net()
    yield "attributes", [p, t, torch.nn.Buffer(torch.ones(2))], show([torch.nn.Parameter(torch.ones(2)), torch.ones(2), torch.ones(2)])
    yield "other", {str(d): torch.ones(2, 3).to(d) for d in [*OTHER_CODES, torch.complex32]}
    yield "quantized", [torch.quantize_per_tensor(a, 0.1, 0, d) for d in (torch.quint8, torch.qint8, torch.qint32)] + [
        torch.quantize_per_channel(a, torch.ones(2), torch.zeros(2), 0, torch.qint8)]
    yield "sparse", [a.to_sparse(), a.to_sparse_csr(), a.to_sparse_csc(), torch.ones(4, 4).to_sparse_bsr((2, 2)), a.half().to_sparse()]
    yield "nested", torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    yield "meta", [torch.ones(2, 3, device="meta"), torch.ones((), device="meta", dtype=torch.int64)]
    yield "views", [a.to(torch.complex64).conj(), torch._neg_view(a), torch.nn.Parameter(a.to(torch.complex64))]
    yield "storages", [torch.UntypedStorage(3), torch.FloatStorage(2)], b"[<a storage without a tensor>, <a storage without a tensor>]"
    yield "names", [torch.complex64, torch.sparse_coo, torch.float8_e8m0fnu], b"[<torch.complex64>, <torch.sparse_coo>, <torch.float8_e8m0fnu>]"


def odd_arrays():
    whole = np.array([0, 1, 1])
    yield "arrays", [whole.astype(c) for c in ("?", "i1", "u8", "f2", "f4", ">f4", ">i2", ">c8", "c8", "c16", "g", "O", "M8[ns]", "m8[s]", "U3", "S3")]
    yield "shapes", [np.empty((0, 3)), np.array(5.0), np.zeros((2, 2), order="F"), np.array([[1, 2]], dtype=[("a", "i4"), ("b", "f8")])], None
    yield "scalars", [np.float32(1), np.uint64(2**63), np.uint64(5), np.complex64(1j), np.longdouble(1), np.datetime64("2020")], \
        b"[1f, <the int 9223372036854775808>, 5, <a numpy scalar of dtype 'c8'>, <a numpy scalar of dtype 'f16'>, <a numpy scalar of dtype 'M8'>]"
    yield "other_arrays", [np.dtype("f4"), np.matrix([[1]]), np.random.RandomState(0)], None
    yield "random", np.random.get_state()


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


def odd(folder):
    warnings.simplefilter("ignore")
    weight = torch.ones(2)
    for name, value, *shown in [*odd_values(), *odd_tensors(), *odd_arrays()]:
        for form, options in forms():
            path = folder / f"{name}-{form}.pt"
            torch.save({name: value, "weight": weight}, path, **options)
            text = show(value) if not shown else shown[0]  # None: only that it is read
            if text is not None:
                path.with_suffix(".txt").write_bytes(b"{'" + name.encode() + b"': " + text + b", 'weight': " + show(weight) + b"}")
    for form, options in forms():
        torch.save(Net(), folder / f"whole-{form}.pt", **options)
        (folder / f"whole-{form}.txt").write_bytes(b"<__main__.Net>")
    scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)))
    scripted.save(folder / "scripted.pt")
    torch.jit.trace(torch.nn.Conv2d(1, 2, 3), torch.ones(1, 1, 4, 4)).save(folder / "traced.pt")


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
{"make": make, "odd": odd, "check": check, "old": old}[sys.argv[1]](pathlib.Path(sys.argv[2]))
