"""Pictures a second on one core: photographs from files to 3 x 224 x 224 floats (RandomResizedCrop, flip, ToTensor, Normalize), and
CIFAR's from memory (padded crop, flip, normalise). The peer: torchvision's DataLoader without worker processes, same transforms,
same photographs. These two rows are our transforms alone, of one picture into one buffer; images/loader_* is a whole Loader beside
the same DataLoader. All by the clock on the wall, rounds of ours and the peer's in turn. Photographs have two goals, each with a row of
its own: 0.8 of libjpeg-turbo's bare decoding of the same files, and 2.5 times the peer, in the same rounds. image_bench checks its
results before it measures.

loader_*: pictures a second of a whole Loader without threads, batches of 32 or 128 drawn by the sampler and stacked; the peer as above.

first_batch: from a loader's making to its first batch, with two threads; the peer: the faster of two worker processes that load ahead
and none. The data set is open before. Of CIFAR in memory, batches of 128, and of photographs, batches of 32: what bare decoding of the
whole pictures takes is in the note; the goal is for what a loader itself takes. loader_bench compares the batch with the sampler's ids
and the data set's own pictures first.
"""
import glob
import json
import os
import subprocess

from figures.common import ROOT, Missing, check, launch, median, peer_or_reason

SHARE_OF_BARE_DECODE = 0.8
TIMES_THE_PEER = 2.5
CIFAR_GOAL = 1_000_000
FIRST_BATCH_GOAL_MS = 5
BATCH_OF_PHOTOGRAPHS = 32


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


def peer(bench, what, archive, folder, workers=0):
    """All that input_rate.py says."""
    unpack(bench, archive, folder)
    out = launch([bench.python(), bench.peer("input_rate.py"), what, str(workers)], env=bench.peer_env(PEER_DATA=bench.path("pictures")))
    return json.loads(out.splitlines()[-1])


def middle(told):
    return told["median"] if isinstance(told, dict) else told


def cifar_as_published(bench):
    if subprocess.run([bench.python(), "-c", "import PIL"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Missing(f"{bench.python()} has no Pillow")
    tree, data = unpack(bench, "cifar10-jpeg.tar.zst", "cifar10"), bench.path("cifar-batches")
    launch([bench.python(), ROOT + "/recipes/cifar_data.py", "batches", tree, data, "--count", "2000"])
    return data


def own_loader(bench, photographs, cifar):
    """{kind: {first_batch_ms: [...], images_per_s: [...]}}."""
    path = bench.path("loader.json")
    launch([bench.program("loader_bench"), "--json", path, "--rounds", "5" if bench.quick else "20", "cifar=" + cifar, "photographs=" + photographs])
    return json.load(open(path))


def loaders(bench, bare):
    """`bare`: photographs decoded in a second by libjpeg-turbo alone."""
    sets = {"photographs": ("photos", "photos-200.tar", "photos/all"), "cifar": ("cifar", "cifar10-jpeg.tar.zst", "cifar10")}
    try:
        unpack(bench, *sets["photographs"][1:])
        cifar = cifar_as_published(bench)
    except Missing as reason:
        print(f"  images/loader, images/first_batch: left out, {reason}")
        return
    ours, peers, why = {kind: [] for kind in sets}, {kind: [] for kind in sets}, {}
    for _ in range(1 if bench.quick else 3):
        bench.idle()
        for kind, told in own_loader(bench, bench.path("pictures/photos"), cifar).items():
            ours[kind].append(told)
        for kind, pictures in sets.items():
            told, why[kind] = peer_or_reason(lambda: [peer(bench, *pictures, workers=n) for n in (0, 2)])
            peers[kind] += [told] if told else []

    def of(told, key):
        return [value for each in told for value in each[key]]

    for kind, told in ours.items():
        alone = [middle(told[0]["images_per_s"]) for told in peers[kind]]
        first = [min(middle(each["first_batch_ms"]) for each in told) for told in peers[kind]]
        known = {"why_no_peer": why[kind]}
        bench.row("images/loader_" + kind, "1/s", of(told, "images_per_s"), less_is_better=False, peer=median(alone) if alone else None, **known)
        note = f"bare decoding on two cores: {BATCH_OF_PHOTOGRAPHS / bare / 2 * 1000:.0f} ms" if kind == "photographs" else ""
        bench.row("images/first_batch_" + kind, "ms", of(told, "first_batch_ms"), goal=FIRST_BATCH_GOAL_MS, note=note,
                  peer=median(first) if first else None, **known)


def measure(bench):
    folder, why = peer_or_reason(lambda: unpack(bench, "photos-200.tar", "photos/all"))
    photographs = sorted(glob.glob(folder + "/**/*.JPEG", recursive=True)) if folder else []
    rounds, peers, why_no_peer = [], {"photos": [], "cifar": []}, {"photos": "", "cifar": ""}
    for _ in range(1 if bench.quick else 4):
        bench.idle()
        rounds.append(own(bench, photographs))
        for what, archive, target in (("photos", "photos-200.tar", "photos/all"), ("cifar", "cifar10-jpeg.tar.zst", "cifar10")):
            if not why_no_peer[what]:
                told, why_no_peer[what] = peer_or_reason(lambda: peer(bench, what, archive, target))
                peers[what] += [middle(told["images_per_s"])] if told else []
    rates = {name: [r[name] for r in rounds] for name in rounds[0]}
    bare = median(rates["jpeg/bare decode"])
    known = {what: {"peer": median(told) if told else None, "less_is_better": False, "why_no_peer": why_no_peer[what]} for what, told in peers.items()}
    bench.row("images/photographs", "1/s", rates["jpeg/random resized crop to 224"], goal=SHARE_OF_BARE_DECODE * bare,
              note=f"bare decoding: {bare:.0f}/s" + (f"; {why}, one made picture" if why else ""), **known["photos"])
    if peers["photos"]:
        ratios = [ours / peer for ours, peer in zip(rates["jpeg/random resized crop to 224"], peers["photos"])]
        bench.row("images/photographs_over_peer", "ratio", ratios, goal=TIMES_THE_PEER, less_is_better=False,
                  note="torchvision's rate in the same round")
    bench.row("images/cifar", "1/s", rates["cifar/crop, flip, normalise"], goal=CIFAR_GOAL, **known["cifar"])
    loaders(bench, bare)
