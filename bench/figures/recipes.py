"""One step of each recipe at its document's full size, two virtual workers in one process on one core: seconds, and the process's memory.

The step: a run of three steps (of the small recipes more) less one of a single step, by their difference: start and first step are slower, as
libtorch makes its kernels' plans. Pictures are the 200 photographs of the test data where they are at hand, dealt out to classes; else those recipes are left out, and it is said.

Checked: the longer run ends with the weights that two workers under the launcher end with.
"""
import json
import os
import pathlib
import subprocess
import tarfile

from figures.common import ROOT, check, launch, weights_hash

STEPS = {"linear_regression": 2001, "multigpu_torchrun": 1001, "mnist_torchrun": 201, "convnet": 21, "multi_node_trainer": 2}
MB = 1e6


def photographs(bench):
    for folder in (os.environ.get("LOCKSTEP_TEST_DATA", ""), os.path.join(ROOT, "..", "shared", "data")):
        archive = pathlib.Path(folder, "photos-200.tar")
        if folder and archive.exists():
            with tarfile.open(archive) as tar:
                return [tar.extractfile(member).read() for member in tar if member.name.lower().endswith((".jpg", ".jpeg"))]
    return []


def dealt(pictures, root, splits, classes):
    """Folders by class below each split's, the pictures in turn."""
    for number, content in enumerate(pictures):
        split = splits[number * len(splits) // len(pictures)]
        folder = root / split / f"class-{number % classes:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(content)
    return root


def jobs(bench):
    """{name: program and options}."""
    recipes = pathlib.Path(bench.build, "recipes")
    found = {
        "linear_regression": [recipes / "classifier/linear_regression", "--epochs", "1001"],
        "mnist_torchrun": [recipes / "classifier/mnist_torchrun", "--data", bench.data()],
        "convnet": [recipes / "convnet/convnet", "--data", bench.data()],
        "multigpu_torchrun": [recipes / "multigpu_torchrun/multigpu_torchrun", "50", "10"],
        "cifar_cluster": [recipes / "cifar_cluster/cifar_cluster", "--custom-data", "true"],
    }
    if pictures := photographs(bench):
        root = pathlib.Path(bench.path("photographs"))
        found["classifier"] = [recipes / "classifier/classifier", "--data", dealt(pictures, root / "three", ["Train", "Train", "Validation"], 3)]
        found["multi_node_trainer"] = [recipes / "time_budget/multi_node_trainer", "--train-time", "0", "--data",
                                       dealt(pictures, root / "twenty", ["train"], 20) / "train"]
    else:
        print("recipes/classifier, recipes/time_budget: no photographs (photos-200.tar) at hand: left out")
    return found


def alone(command, folder):
    """The process's memory in bytes, and the hash of its weights. Files that a document has in its own folder come into `folder`."""
    folder.mkdir(parents=True)
    with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    check(status == 0, f"'{' '.join(command)}' ended with {process.returncode}: {(folder / 'err').read_text()[-800:]}")
    return usage.ru_maxrss * 1024, weights_hash((folder / "out").read_text())


def one(bench, name, words):
    root, steps = pathlib.Path(bench.path("recipe-" + name)), STEPS.get(name, 3)

    def command(folder, most):
        return [*map(str, words), "--virtual-workers", "2", "--max-steps", str(most), "--checkpoint-every", "0", "--output", str(folder / "run")]

    def seconds(folder):
        return json.loads((folder / "run/result.json").read_text())["seconds"]
    alone(command(root / "short", 1), root / "short")
    memory, weights = alone(command(root / "long", steps), root / "long")
    (root / "two").mkdir()
    two = weights_hash(launch(bench.run(2, *command(root / "two", steps)), env={"OMP_NUM_THREADS": "1"}, cwd=root / "two"))
    check(two == weights, f"recipes/{name}: two workers end with other weights than one")
    return (seconds(root / "long") - seconds(root / "short")) / (steps - 1), memory


def measure(bench):
    bench.idle()
    for name, words in jobs(bench).items():
        seconds, memory = one(bench, name, words)
        bench.row(f"recipes/{name}_step", "s", [seconds], note="two shares on one core")
        bench.row(f"recipes/{name}_memory", "MB", [memory / MB], note="resident, at its most, of one process")
