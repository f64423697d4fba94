"""Pictures a second on one core: photographs from files to 3 x 224 x 224 floats (RandomResizedCrop, flip, ToTensor, Normalize), and
CIFAR's from memory (padded crop, flip, normalise). The peer: torchvision's DataLoader without worker processes, same transforms,
same photographs. All by the clock on the wall, rounds of ours and the peer's in turn. The goal for photographs is 0.8 of
libjpeg-turbo's bare decoding of the same files, in the same rounds; by design 2.5 times the peer as well (`ratio`). image_bench
checks its results before it measures.
"""
import glob
import json
import os
import subprocess

from figures.common import ROOT, Missing, check, launch, median, peer_or_reason

SHARE_OF_BARE_DECODE = 0.8
CIFAR_GOAL = 1_000_000


def unpack(bench, archive, folder):
    """The archive's folders as PEER_DATA/FOLDER."""
    for base in (os.environ.get("LOCKSTEP_TEST_DATA", ""), os.path.join(ROOT, "..", "shared", "data")):
        path = os.path.join(base, archive)
        if base and os.path.exists(path):
            target = bench.path("pictures/" + folder)
            if os.path.isdir(target):
                return target
            os.makedirs(target, exist_ok=True)
            done = subprocess.run(["tar", "-xf", os.path.abspath(path), "-C", target], stderr=subprocess.PIPE, text=True)
            check(done.returncode == 0, f"tar could not unpack {path}: {done.stderr}")
            return target
    raise Missing(f"no {archive} in LOCKSTEP_TEST_DATA")


def own(bench, photographs):
    path = bench.path("images.json")
    launch([bench.program("image_bench"), "--json", path, "--seconds", "0.05" if bench.quick else "0.2", *photographs])
    return {row["name"]: row["value"] for row in json.load(open(path))}


def peer(bench, what, archive, folder):
    unpack(bench, archive, folder)
    out = launch([bench.python(), bench.peer("input_rate.py"), what, "0"], env=bench.peer_env(PEER_DATA=bench.path("pictures")))
    rate = json.loads(out.splitlines()[-1])["images_per_s"]
    return rate["median"] if isinstance(rate, dict) else rate


def measure(bench):
    folder, why = peer_or_reason(lambda: unpack(bench, "photos-200.tar", "photos/all"))
    photographs = sorted(glob.glob(folder + "/**/*.JPEG", recursive=True)) if folder else []
    rounds, peers, why_no_peer = [], {"photos": [], "cifar": []}, {"photos": "", "cifar": ""}
    for _ in range(1 if bench.quick else 4):
        bench.idle()
        rounds.append(own(bench, photographs))
        for what, archive, target in (("photos", "photos-200.tar", "photos/all"), ("cifar", "cifar10-jpeg.tar.zst", "cifar10")):
            if not why_no_peer[what]:
                rate, why_no_peer[what] = peer_or_reason(lambda: peer(bench, what, archive, target))
                peers[what] += [rate] if rate else []
    rates = {name: [r[name] for r in rounds] for name in rounds[0]}
    bare = median(rates["jpeg/bare decode"])
    known = {what: {"peer": median(told) if told else None, "less_is_better": False, "why_no_peer": why_no_peer[what]} for what, told in peers.items()}
    bench.row("images/photographs", "1/s", rates["jpeg/random resized crop to 224"], goal=SHARE_OF_BARE_DECODE * bare,
              note=f"bare decoding: {bare:.0f}/s" + (f"; {why}, one made picture" if why else ""), **known["photos"])
    bench.row("images/cifar", "1/s", rates["cifar/crop, flip, normalise"], goal=CIFAR_GOAL, **known["cifar"])
