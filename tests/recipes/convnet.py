#!/usr/bin/env python3
"""Tutorial 002's ConvNet four ways: DataParallel beside Python, each mode killed in mid-epoch, its arguments, runs side by side."""
import json
import os
import pathlib
import random
import re
import signal
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from beside_python import (HERE, LOCKSTEP, PYTHON, RECIPE, BesidePython, Started, by_hand_place, python, recipe, run, run_dir,
                           steps, without_duration)  # noqa: E402

# 83 steps an epoch of one process, in chunks of 3, 3, 3 and 1; the last one of 1 and 1.
SAMPLES, BATCH, EPOCHS, REPLICAS = 822, 10, 2, 4
TESTS = 40
COMPARE = pathlib.Path(RECIPE).parent / "convnet_compare"


def write_digits(folder, samples=SAMPLES):
    """A tiny set in MNIST's format."""
    noise = random.Random(0)
    for part, count in (("train", samples), ("t10k", TESTS)):
        images, labels = noise.randbytes(count * 784), bytes(noise.randrange(10) for _ in range(count))
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 28, 28) + images)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + labels)


def weights(printout):
    return re.search("weights sha256 .*", printout)[0]


class ConvNet(BesidePython):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.folder("data")
        write_digits(cls.data)

    def recipe(self, folder, workers, *options, **more):
        length = () if "--max-duration" in options else ("--epochs", EPOCHS)
        return recipe(folder, workers, "--data", self.data, *length, "--batch-size", BATCH, *options, **more)

    def alone(self, folder, *options, code=0):
        return run(folder, RECIPE, "--data", self.data, "--epochs", EPOCHS, "--batch-size", BATCH, *options, code=code)

    def test_data_parallel_has_the_bits_of_the_same_done_by_hand(self):
        theirs, ours = self.folder("theirs"), self.folder("ours")
        printout = python(theirs, self.data, EPOCHS, BATCH, REPLICAS)
        out, _ = self.recipe(ours, 1, "--mode", "dp", "-g", REPLICAS)
        self.assert_losses(ours, theirs)
        self.assertEqual(weights(out), weights(printout))
        version, cuda, devices, _, *lines = out.splitlines()
        self.assertRegex(version, r"^\d+\.\d+\.\d+$")
        self.assertEqual(cuda, "False")
        self.assertGreater(int(devices), 0)
        model = printout.splitlines()[:-1]
        self.assertEqual(lines[:len(model)], model)
        self.assertEqual(lines[len(model)], "Using  4  GPUs!")
        self.assertTrue(lines[len(model) + 1].startswith("Epoch [1/2], Step [83/83], Loss: "), lines[len(model) + 1])
        self.assertEqual(json.loads((run_dir(ours) / "manifest.json").read_text())["replicas"], "4")

    def assert_survives(self, name, options, workers, launcher, rung):
        whole, _ = self.recipe(self.folder(f"{name}-whole"), workers, *options)
        folder = self.folder(f"{name}-killed")
        killed, err = self.recipe(folder, workers, *options, launcher=launcher)
        self.assertIn(rung, err)
        self.assertEqual(killed, whole)  # the first cells too are printed once
        self.assert_incidents(folder, 1)
        return folder, whole

    def test_one_process_killed_in_mid_epoch_goes_on_from_its_checkpoint(self):
        launcher = ["--max-restarts", 1, "--inject", "kill rank=0 txn=50 phase=backward"]
        _, single = self.assert_survives("single", ["--mode", "single", "--checkpoint-every", 20], 1, launcher, "starts again")
        _, dp = self.assert_survives("dp", ["--mode", "dp", "--checkpoint-every", 20], 1, launcher, "starts again")
        self.assertNotEqual(weights(single), weights(dp))  # batch norm by chunk

    def test_a_killed_worker_is_replaced_and_horovod_has_the_bits_of_ddp(self):
        launcher = ["--inject", "kill rank=1 txn=10 phase=backward"]
        options = ["-n", 1, "-g", 4, "-nr", 0, "--log-every", 5]
        ddp_folder, ddp = self.assert_survives("ddp", ["--mode", "ddp", *options], 2, launcher, "replacement is started")
        hvd_folder, hvd = self.assert_survives("horovod", ["--mode", "horovod", *options], 2, launcher, "replacement is started")
        self.assertEqual(weights(hvd), weights(ddp))
        self.assertEqual([line for line in ddp.splitlines() if "Step [" in line], [line for line in hvd.splitlines() if "Step [" in line])
        default, _ = self.recipe(self.folder("default"), 3, "--virtual-workers", 4, "--log-every", 5)
        self.assertEqual(default, ddp)  # the first cells too
        self.compare(run_dir(ddp_folder), run_dir(hvd_folder))

    def compare(self, ddp, hvd):
        out, _ = run(ddp, COMPARE, ddp, hvd)
        head, first, second, blank, columns = out.splitlines()
        self.assertEqual(head.split(), ["run", "mode", "workers", "steps", "seconds", "directory"])
        self.assertEqual(first.split()[:4], ["1", "ddp", "4", "42"])
        self.assertEqual(second.split()[:4], ["2", "horovod", "4", "42"])
        self.assertEqual(columns.split(), ["samples", "loss", "1", "loss", "2"])
        self.assertIn("is not the directory of a convnet run", run(ddp, COMPARE, ddp / "checkpoints", code=65)[1])
        run(ddp, COMPARE, code=2)

    def spawned(self, folder, *options, inject="", epochs=EPOCHS):
        """The tutorial's only command: workers of its own, without the time it took."""
        variables = ["env", f"LOCKSTEP_LAUNCHER={LOCKSTEP}", *([f"PET_INJECT={inject}"] if inject else [])]
        out, err = run(folder, *variables, RECIPE, "-n", 1, "-g", 4, "-nr", 0, "--epochs", epochs, "--data", self.data, "--batch-size", BATCH,
                       "--log-every", 5, *options)
        return without_duration(out), err

    def node(self, folder, number, *options, epochs=EPOCHS):
        """The tutorial's command for one of two nodes."""
        host, port = by_hand_place().split(":")
        return Started(folder, RECIPE, "-n", 2, "-g", 2, "-nr", number, "--epochs", epochs, "--data", self.data, "--batch-size", BATCH, *options,
                       MASTER_ADDR=host, MASTER_PORT=port)

    def test_a_command_for_each_node(self):
        expected, _ = self.spawned(self.folder("one-node"), "--mode", "ddp")
        folder = self.folder("two-nodes")
        with self.node(folder, 1, "--log-every", 5, "--mode", "ddp") as second, self.node(folder, 0, "--log-every", 5, "--mode", "ddp") as first:
            self.assertEqual(without_duration(first.finish()), expected)
            self.assertEqual(second.finish() + second.text(second.err), "")

    def test_nodes_and_their_workers_killed(self):
        expected, _ = self.spawned(self.folder("not-killed"), epochs=20)
        folder, options = self.folder("node-killed"), ["--log-every", 5]
        with self.node(folder, 0, *options, epochs=20) as first, self.node(folder, 1, *options, epochs=20) as second:
            first.until_line("Epoch [2/20], Step [5/21]")
            victim = second.children()[1]
            os.kill(victim, signal.SIGKILL)
            first.until_line("Epoch [4/20], Step [5/21]")
            second.until_complains(f"rank 3 (process {victim}) was ended by signal 9: nobody starts it again")
            second.kill()
            first.until_line("Epoch [6/20], Step [5/21]")
            with self.node(folder, 1, *options, epochs=20) as again:
                out = first.finish()
                again.finish()  # also if the others were done before
        self.assertEqual(without_duration(out), expected)
        self.assert_incidents(folder, 2)

    def test_pictures_of_another_size(self):
        options = ["--image-size", 20, "--log-every", 5]
        small, _ = self.recipe(self.folder("small"), 2, "--virtual-workers", 2, *options, launcher=["--inject", "kill rank=1 txn=7 phase=forward"])
        again, _ = self.recipe(self.folder("small-again"), 1, "--virtual-workers", 2, *options)
        self.assertEqual(small, again)
        own, _ = self.recipe(self.folder("own-size"), 1, "--virtual-workers", 2, "--log-every", 5)
        self.assertNotEqual(weights(own), weights(small))
        for mode in ("dp", "horovod"):
            out, _ = self.alone(self.folder(f"small-{mode}"), "--mode", mode, *options)
            self.assertIn("weights sha256", out)

    def test_evaluations_in_the_epoch_and_of_some_epochs(self):
        options = ["--virtual-workers", 2, "--log-every", 0]
        plain, _ = self.recipe(self.folder("each-epoch"), 2, *options)
        launcher = ["--inject", "kill rank=0 txn=20 phase=evaluate"]
        folder, whole = self.assert_survives("each-20", [*options, "--evaluate-every", 20], 2, launcher, "replacement is started")
        self.assertEqual(weights(whole), weights(plain))
        told = re.findall(r"^Epoch \[(\d)/2\](?:, Step \[(\d+)/42\])?, Test loss", whole, re.M)
        self.assertEqual(told, [("1", "20"), ("1", "40"), ("1", ""), ("2", "20"), ("2", "40"), ("2", "")])
        _, err = self.recipe(folder, 2, *options, code=2)
        self.assertIn("evaluate_every", err)

        folder = self.folder("stopped-at-20")
        first, _ = self.recipe(folder, 2, *options, "--evaluate-every", 20, "--max-steps", 20)
        *greeting, cut, evaluation, _ = first.splitlines()
        self.assertIn("The run ends here, at step 20 of 42 of epoch 1 (--max-steps)", cut)
        rest, err = self.recipe(folder, 1, *options, "--evaluate-every", 20)
        self.assertEqual([*greeting, evaluation, *rest.splitlines()[len(greeting):]], whole.splitlines())

        rarely, _ = self.recipe(self.folder("each-second"), 2, *options, "--evaluate-every", "2ep")
        self.assertEqual(weights(rarely), weights(plain))
        self.assertEqual(re.findall(r"^Epoch \[(\d)/2\], Test loss", rarely, re.M), ["2"])
        never, _ = self.recipe(self.folder("never"), 2, *options, "--evaluate-every", 0)
        self.assertEqual(weights(never), weights(plain))
        self.assertNotIn("Test loss", never)

    def test_a_run_ends_after_its_duration(self):
        # Two shares of 10: 42 steps an epoch. 300 samples need 15 steps.
        for duration, count in (("7ba", 7), ("300sp", 15), ("1ep", 42)):
            folder = self.folder(f"for-{duration}")
            self.recipe(folder, 2, "--virtual-workers", 2, "--max-duration", duration)
            self.assertEqual(len(steps(folder)), count, duration)

    def test_a_run_ends_after_its_time_and_goes_on_with_more(self):
        folder, options = self.folder("for-1s"), ["--virtual-workers", 2, "--log-every", 0]
        self.recipe(folder, 2, *options, "--max-duration", "1s")
        stopped = len(steps(folder))
        self.assertEqual(json.loads((run_dir(folder) / "stop.json").read_text())["stop_after_step"], stopped)
        out, err = self.recipe(folder, 1, *options, "--max-duration", f"{stopped + 60}ba")
        self.assertIn("resuming from", err)
        self.assertEqual(len(steps(folder)), stopped + 60)
        whole, _ = self.recipe(self.folder("whole"), 2, *options, "--max-duration", f"{stopped + 60}ba")
        self.assertEqual(weights(out), weights(whole))

    def test_who_goes_back_behind_a_stop_is_not_held_by_it(self):
        folder, options = self.folder("back"), ["--virtual-workers", 2, "--log-every", 0]
        options += ["--max-duration", "2s"]  # the second time too: a longer one lifts any stop
        self.recipe(folder, 2, *options, "--checkpoint-every", 4, "--keep-checkpoints", 2)
        stopped = len(steps(folder))
        *_, before, _ = sorted((run_dir(folder) / "checkpoints").glob("step-*"))
        self.recipe(folder, 2, *options, "--resume", before, "--max-steps", stopped + 2)
        self.assertEqual(len(steps(folder)), stopped + 2)
        self.assertFalse((run_dir(folder) / "stop.json").exists())

    def test_the_tutorials_command_starts_its_workers(self):
        launched, err = self.recipe(self.folder("launched"), 2, "-n", 1, "-g", 4, "-nr", 0, "--log-every", 5)
        self.assertIn("--gpus: the launcher starts the workers", err)
        folder = self.folder("spawned")
        whole, err = self.spawned(folder)
        self.assertNotIn("the launcher starts", err)
        self.assertEqual(whole, launched)
        self.assert_incidents(folder, 0)
        self.assertEqual(json.loads((run_dir(folder) / "manifest.json").read_text())["virtual_workers"], "4")
        folder = self.folder("spawned-killed")
        killed, err = self.spawned(folder, inject="kill rank=3 txn=10 phase=backward")
        self.assertIn("replacement is started", err)
        self.assert_incidents(folder, 1)
        self.assertEqual(killed, launched)

    def test_spawned_horovod_prints_the_first_cells_once_and_resumes(self):
        folder = self.folder("spawned-horovod")
        out, _ = self.spawned(folder, "--mode", "horovod", "--max-steps", 20)
        self.assertEqual(out.count("ConvNet("), 1)
        resumed, err = self.recipe(folder, 2, "--mode", "horovod", "-g", 4, "--log-every", 5)
        self.assertIn("resuming from", err)
        whole, _ = self.spawned(self.folder("spawned-ddp"), "--mode", "ddp")
        self.assertEqual(weights(resumed), weights(whole))

    def test_half_weights_with_masters_survive_and_are_kept_in_fp32(self):
        options = ["-g", 4, "--opt-level", "O2", "--half-dtype", "bf16", "--lr", 0.01, "--momentum", 0.9, "--max-steps", 12]
        launcher = ["--inject", "kill rank=1 txn=6 phase=backward"]
        folder, whole = self.assert_survives("o2", options, 2, launcher, "replacement is started")
        hvd, _ = self.recipe(self.folder("o2-horovod"), 2, "--mode", "horovod", *options)
        self.assertEqual(weights(hvd), weights(whole))
        resumed = self.folder("o2-resumed")
        self.recipe(resumed, 1, *options[:-1], 5)
        self.assertIn("half_dtype was bf16, now it is fp16", self.recipe(resumed, 1, *options, "--half-dtype", "fp16", code=2)[1])
        out, err = self.recipe(resumed, 3, *options)
        self.assertIn("resuming from", err)
        self.assertEqual(weights(out), weights(whole))
        run(folder, LOCKSTEP, "checkpoint", "export", run_dir(folder), "o2.pt")
        script = "import torch; print({str(v.dtype) for k, v in torch.load('o2.pt', weights_only=True).items() if v.is_floating_point()})"
        self.assertEqual(run(folder, PYTHON, "-c", script)[0].strip(), "{'torch.float32'}")

    def test_a_step_that_is_left_out_changes_nothing(self):
        # The first update makes the weights so large that no later loss is a number.
        blown = ["--lr", "1e30", "--virtual-workers", 2, "--log-every", 0]
        one, _ = self.recipe(self.folder("nan-one"), 1, *blown, "--max-steps", 1)
        folder = self.folder("nan-skip")
        four, _ = self.recipe(folder, 2, *blown, "--max-steps", 4, "--on-nan", "skip")
        self.assertEqual(weights(four), weights(one), "buffers too")
        self.assertEqual([step.get("skipped", False) for step in steps(folder)], [False, True, True, True])
        goes_on, _ = self.recipe(self.folder("nan-continue"), 2, *blown, "--max-steps", 4)
        self.assertNotEqual(weights(goes_on), weights(one))
        _, err = self.recipe(self.folder("nan-stop"), 2, *blown, "--max-steps", 4, "--on-nan", "stop", code=65)
        self.assertRegex(err, r"step 1 \(epoch 0, step 1\): the loss of virtual worker 0 is (nan|-?inf); stopped before its update")

    def test_the_first_cells_are_printed_once_however_workers_start(self):
        launcher = ["--start-method", "exec", "--inject", "kill rank=0 txn=3 phase=forward"]
        folder = self.folder("exec")
        out, err = self.recipe(folder, 2, "--mode", "ddp", "-g", 2, "--max-steps", 30, launcher=launcher)
        self.assertEqual(out.count("ConvNet("), 1)
        self.assertEqual(err.count("the launcher starts the workers"), 1)
        self.assert_incidents(folder, 1)

    def test_data_parallel_goes_on_from_its_checkpoint(self):
        folder = self.folder("dp-resumed")
        self.alone(folder, "--mode=dp", "--gpus", 3, "--max-steps", 40)
        self.assertIn("replicas was 3, now it is 2", self.alone(folder, "--mode=dp", "--gpus", 2, code=2)[1])
        resumed, err = self.alone(folder, "--mode=dp", "--gpus", 3)
        self.assertIn("resuming from", err)
        whole, _ = self.alone(self.folder("dp-at-once"), "--mode=dp", "--gpus", 3)
        self.assertEqual(weights(resumed), weights(whole))

    def test_wrong_arguments_are_told(self):
        folder = self.folder("wrong")
        for words, message in (
                ("--mode apex", "--mode is 'apex', expected single, dp, ddp or horovod"),
                ("--mode dp --virtual-workers 2", "--virtual-workers is 2; --mode dp has one"),
                ("--mode single -g 2", "--gpus is 2; --mode single has one"),
                ("--mode dp -n 2 -g 4", "--nodes is 2; --mode dp has one"),
                ("-n 2", "--nodes is 2, and --gpus (-g) is missing"),
                ("-n 2 -g 65", "--nodes times --gpus is 130"),
                ("-n 2 -g 2", "this is rank 0 of 4, and nothing says where the others are"),
                ("-g 129", "--gpus is '129', expected a whole number from 0 to 128"),
                ("-n 1 -g 4 -nr 1", "--nr is 1; with --nodes 1 it is at most 0"),
                ("-n 2 -g 2 -nr 2", "--nr is 2; with --nodes 2 it is at most 1"),
                ("-n 2 -g 2 --virtual-workers 2", "--virtual-workers is 2, but --gpus 2 on 2 nodes"),
                ("--image-size 3", "--image-size is 3; 0, or at least 4"),
                ("--mode dp --opt-level O2", "--mode dp trains in fp32 (O0)"),
                ("--opt-level O4", "--opt-level is 'O4', expected O0, O1, O2 or O3"),
                ("--check-against-tutorial --batch-size 100 --opt-level O1", "a run of --opt-level O0"),
                ("-g 4 --virtual-workers 3", "--virtual-workers is 3, but --gpus 4"),
                ("--check-against-tutorial --seed 1 --batch-size 100", "a run of --seed 0"),
                ("--check-against-tutorial --batch-size 100 --max-steps 49", "the tutorial's first line is at step 50"),
                ("--check-against-tutorial --mode dp -g 3 --batch-size 100", "a run of --gpus 4")):
            self.assertIn(message, self.alone(folder, *words.split(), code=2)[1])
        with self.node(folder, 1, "--init-timeout", 1) as node:
            node.finish(69)
            self.assertIn("of 4 nobody has come as rank 0, 1", node.text(node.err))
        _, err = self.recipe(folder, 3, "-g", 2, code=2)
        self.assertIn("3 workers were asked for (--nproc-per-node, or the number of ranks), but the run has 2 virtual workers", err)
        _, err = self.recipe(folder, 2, "--mode", "dp", code=2)
        self.assertIn("1 virtual workers", err)

    def test_other_data_are_not_the_tutorials(self):
        folder = self.folder("other")
        write_digits(folder, samples=100)  # one step an epoch, 25 for each
        out, err = run(folder, RECIPE, "--mode", "horovod", "--data", folder, "--epochs", 50, "--check-against-tutorial", code=65)
        self.assertIn("Tutorial, DistributedDataParallel: 0 of 1 lines equal", out)
        self.assertIn("is not the tutorial's", err)

    def test_the_published_losses_are_those_of_the_document(self):
        lines = json.loads((HERE.parent / "golden/seed002_lines.json").read_text())
        source = (HERE.parent.parent / "recipes/convnet/tutorial.cpp").read_text()
        for name, kind in (("kOneGpu", "one_gpu"), ("kDataParallel", "data_parallel"), ("kFourProcesses", "ddp")):
            table = re.search(rf"std::array {name} = {{(.*?)}};", source, re.S)[1]
            self.assertEqual(re.findall(r"\d\.\d{4}", table), [line[-6:] for line in lines[kind]])


if __name__ == "__main__":
    unittest.main(verbosity=2)
