"""The repository's own checks are shown to find what they are for, on small trees made for it."""
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True


def load(name):
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / "tools" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


class Help(unittest.TestCase):
    def test_needs_no_environment(self):
        for program in ("tests/fault/chaos", "tests/support/machines", "bench/run", "tools/check_recipes"):
            done = subprocess.run([ROOT / program, "--help"], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout.startswith("usage: ")), (0, True), f"{program}: {done.stderr}")


class Layers(unittest.TestCase):
    def problems(self, files):
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return [f"{p.relative_to(root)}:{n}: {t}" for p, n, t in load("check_layers").check_tree(root)[0]]

    def test_json_is_written_by_one_function(self):
        (problem,) = self.problems({"src/coord/a.cpp": "auto text = json.dump(2);\n", "src/base/json.cpp": "json.dump();\n"})
        self.assertIn("src/coord/a.cpp:1: writes JSON by dump()", problem)

    def test_downward_include_is_fine(self):
        self.assertEqual(self.problems({"src/comm/a.cpp": '#include "coord/board.h"\n#include "base/ids.h"\n'}), [])

    def test_upward_include_is_named_with_its_line(self):
        (problem,) = self.problems({"src/coord/a.h": '// x\n#include "comm/group.h"\n'})
        self.assertIn("src/coord/a.h:2: includes comm/group.h", problem)
        self.assertIn("may use base", problem)

    def test_data_never_sees_comm(self):
        self.assertEqual(len(self.problems({"src/data/a.h": '#include "comm/group.h"\n'})), 1)

    def test_torch_is_rejected_in_a_torch_free_room(self):
        for header in ("ATen/ATen.h", "torch/torch.h", "c10/util/Half.h"):
            self.assertEqual(len(self.problems({"src/launcher/a.cpp": f"#include <{header}>\n"})), 1)
        self.assertEqual(self.problems({"src/comm/gloo/a.cpp": "#include <torch/torch.h>\n"}), [])
        self.assertEqual(self.problems({"src/ddp/a.cpp": "#include <torch/torch.h>\n"}), [])

    def test_public_headers_stand_for_themselves(self):
        self.assertEqual(len(self.problems({"include/lockstep/a.h": '#include "train/run.h"\n'})), 1)

    def test_links(self):
        self.assertEqual(len(self.problems({"src/base/CMakeLists.txt": "lockstep_room(base a.cpp DEPS lockstep::coord)\n"})), 1)
        self.assertEqual(len(self.problems({"src/comm/CMakeLists.txt": "target_link_libraries(x torch::cpu)\n"})), 1)
        self.assertEqual(len(self.problems({"src/comm/CMakeLists.txt": "link(x lockstep::data_files)\n"})), 1)

    def test_unknown_room(self):
        self.assertEqual(len(self.problems({"src/attic/a.cpp": "\n"})), 1)


class Architecture(unittest.TestCase):
    PAGE = """## Arrows

```
low → mid, files → tool          words beside the drawing
low → mid → top ───┐
low → files ───────┼→ train → recipes
other (a remark) ──┘
```

| `low` | a |
| `mid` | b |
| `files` | c |
| `tool` | d |
| `top` | e |
| `other` | f |
| `train` | g |

Not there yet: `late`.
"""
    ALLOWED = {"low": "", "mid": "low", "files": "low", "tool": "low mid files", "top": "low mid", "other": "",
               "train": "low mid files top other", "recipes": "train", "late": "low"}

    def problems(self, page=PAGE, more_rooms=(), **allowed):
        allowed = {room: set(used.split()) for room, used in {**self.ALLOWED, **allowed}.items()}
        there = set(self.ALLOWED) - {"late"} | set(more_rooms)
        return list(load("check_docs").rooms(page, there, allowed))

    def test_drawing_and_table_that_agree(self):
        self.assertEqual(self.problems(), [])

    def test_arrows_are_compared_both_ways(self):
        (problem,) = self.problems(tool="low mid")
        self.assertIn("'tool' uses files, low, mid in the drawing; tools/check_layers has not files", problem)
        (problem,) = self.problems(other="low")
        self.assertIn("'other' uses nothing in the drawing; tools/check_layers has also low", problem)

    def test_rooms_are_compared_both_ways(self):
        self.assertEqual(self.problems(more_rooms=["new"]), ["the drawing lacks the room 'new'", "the table lacks the room 'new'"])
        self.assertEqual(self.problems(self.PAGE.replace("| `mid` | b |\n", "")), ["the table lacks the room 'mid'"])
        self.assertIn("names a room 'gone' that does not exist", self.problems(self.PAGE.replace("| `mid`", "| `gone` | x |\n| `mid`")))
        self.assertIn("names a room 'gone' that does not exist", self.problems(self.PAGE.replace("low → files ──", "low → files, gone ──")))

    def test_a_room_is_either_there_or_not_there_yet(self):
        self.assertIn("says that 'late' is not there yet, but it is", self.problems(more_rooms=["late"]))
        self.assertEqual(self.problems(self.PAGE.replace("| `mid`", "| `late` | x |\n| `mid`")), [])


class Samples(unittest.TestCase):
    HEADER = "// What it is.\n//\n//   f(1,\n//     2);  // sum\n//\n// Threads: any.\n#pragma once\n//   g();\n"

    def test_line_breaks_apart_a_sample_is_in_the_source(self):
        missing = load("check_docs").samples_not_in
        self.assertEqual(list(missing("void x() {\n  f(1, 2);  // sum\n}\n", self.HEADER)), [])
        self.assertEqual(list(missing("void x() {\n  f(2, 2);  // sum\n}\n", self.HEADER)), [3])


class Readme(unittest.TestCase):
    def test_what_is_too_long_is_named(self):
        wrong = load("check_docs").size_of_readme
        self.assertEqual(list(wrong("x" * 120 + "\n" + "y\n" * 149)), [])
        self.assertEqual([line for line, _ in wrong("y\n" * 151)], [151])
        self.assertEqual([line for line, _ in wrong("y\n" + "ä" * 121 + "\n")], [2])

    def test_long_lines_are_told_but_in_tables_headings_and_blocks(self):
        long = "x" * 121
        said = load("check_docs").long_lines
        self.assertEqual(list(said(ROOT, f"# {long}\n| {long} |\n```\n{long}\n```\n{'ä' * 120}\n")), [])
        self.assertEqual([line for _, line, _ in said(ROOT, f"```\nx\n```\n{long}\n- {long}\n")], [4, 5])

    def test_a_guides_code_is_part_of_a_file(self):
        def said(text):
            return [what for _, _, what in load("check_docs").blocks(ROOT / "docs/guide/options.md", text)]
        inner = "```cpp\nif (!more) return {};\n```\n"  # in the example it stands deeper
        self.assertEqual(said(f"<!-- file: examples/own_loop/main.cpp -->\n{inner}"), [])
        self.assertIn("shows C++ that nothing compiles", said(inner)[0])

    def test_blocks_that_cannot_be_what_they_say(self):
        def said(text):
            return [what for _, _, what in load("check_docs").blocks(ROOT / "README.md", text)]
        self.assertEqual(said("```sh\ncase $code in 138 | 75) echo again ;; esac\n```\n"), [])
        self.assertIn("is no shell", said("```sh\ncase $code in 138 | 75) echo again\n```\n")[0])
        self.assertEqual(said("<!-- file: VERSION -->\n```text\n9.9\n```\n"), ["is not what VERSION says"])
        self.assertEqual(said("```sh\ncmake --preset none\n```\n"), ["no preset 'none' in CMakePresets.json"])


class Tree(unittest.TestCase):
    def setUp(self):
        self.tree = load("check_tree")

    def called(self, code):
        return [next(g for g in m.groups() if g) for m in self.tree.CALLS.finditer(self.tree.blank(code))]

    def test_functions_are_measured(self):
        code = "namespace a {\nint f(int x) {\n  if (x) {\n    return 1;\n  }\n  return 2;\n}\nstruct S {\n  void g() const {\n  }\n};\n}\n"
        self.assertEqual(self.tree.functions(code), [("f", 2, 6), ("g", 9, 2)])

    def test_calls_that_end_the_process(self):
        self.assertEqual(self.called("if (x) exit(1);"), ["exit"])
        self.assertEqual(self.called("  std::abort();"), ["abort"])
        self.assertEqual(self.called("  std::this_thread::sleep_for(1s);"), ["sleep_for"])

    def test_members_and_text_are_not_calls(self):
        self.assertEqual(self.called('group.abort(cause); void abort(Error cause); _exit(1); // exit(1)\n log("exit(1)");'), [])

    def test_unfinished(self):
        self.assertTrue(self.tree.UNFINISHED.search("// TO" "DO: later"))
        self.assertFalse(self.tree.UNFINISHED.search("todos are fine"))


class Summary(unittest.TestCase):
    def run_summary(self, cases, steps="unit", failed=""):
        with tempfile.TemporaryDirectory() as scratch:
            if cases is not None:
                rows = "".join(f'<testcase name="{n}" status="{s}"><system-out>{o}</system-out></testcase>' for n, s, o in cases)
                pathlib.Path(scratch, "ci.xml").write_text(f"<testsuite>{rows}</testsuite>")
            done = subprocess.run([sys.executable, ROOT / "tools/test_summary", scratch, steps, failed], capture_output=True, text=True)
            return done.returncode, done.stdout.splitlines()

    def test_counts_and_closing_line(self):
        code, lines = self.run_summary([("a", "run", ""), ("b", "run", "")], "unit format")
        self.assertEqual((code, lines[-1]), (0, "3 passed, 0 failed, 0 skipped"))

    def test_failure(self):
        code, lines = self.run_summary([("a", "run", ""), ("b", "fail", "")], "unit", "unit")
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_expected_and_unexpected_skips(self):
        code, lines = self.run_summary([("a", "run", ""), ("golden_v1", "notrun", "skipped: no MNIST")])
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))
        code, lines = self.run_summary([("a", "run", ""), ("nobody", "notrun", "skipped: because")])
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_cases_left_out_of_a_test_that_passed(self):
        said = "[ RUN      ] HeldPort.X\na.cpp:3: Skipped\nno IPv6\n\n[  SKIPPED ] HeldPort.{} (0 ms)\n[  SKIPPED ] HeldPort.{}\n"
        known = said.replace("{}", "IsForOneServerOfTheWorkers")
        code, lines = self.run_summary([("launcher_unit_test", "run", known)])
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertIn("(no IPv6)", lines[0])
        self.assertEqual(self.run_summary([("launcher_unit_test", "run", said.replace("{}", "Other"))])[1][-1], "1 passed, 1 failed, 0 skipped")
        python = "test_a (__main__.C.test_a)\nWhat it says. ... skipped 'no Pillow'\ntest_b (__main__.C.test_b) ... ok\n"
        self.assertEqual(self.run_summary([("recipe", "run", python)])[1][-1], "1 passed, 1 failed, 0 skipped")
        timed = "test_ddp (__main__.S.test_ddp, 9.2 s) ... ok\ntest_lightning (__main__.S.test_lightning, 0.5 s) ... skipped 'no lightning'\n"
        self.assertEqual(self.run_summary([("fault_nodes_scripts", "run", timed)])[1][-1], "1 passed, 0 failed, 1 skipped")

    def test_no_test_is_a_failure(self):
        self.assertEqual(self.run_summary(None)[0], 1)
        self.assertEqual(self.run_summary([])[0], 1)


class FindTorch(unittest.TestCase):
    def find(self, **env):
        return subprocess.run([ROOT / "tools/find_torch"], capture_output=True, text=True, env={**os.environ, **env})

    def torch(self, folder, major, minor):
        for name in ("include/torch/headeronly", "lib"):
            (folder / name).mkdir(parents=True)
        (folder / "include/torch/headeronly/version.h").write_text(
            f"#define TORCH_VERSION_MAJOR {major}\n#define TORCH_VERSION_MINOR {minor}\n#define TORCH_VERSION_PATCH 0\n")
        (folder / "lib/libtorch_cpu.so").write_text("")
        return str(folder)

    def test_explicit_folder(self):
        with tempfile.TemporaryDirectory(prefix="lockstep ünit ") as scratch:
            new = self.torch(pathlib.Path(scratch, "new"), 2, 11)
            self.assertEqual(self.find(LOCKSTEP_TORCH_DIR=new).stdout.strip(), new)
            old = self.find(LOCKSTEP_TORCH_DIR=self.torch(pathlib.Path(scratch, "old"), 2, 9))
            self.assertEqual(old.returncode, 2)
            self.assertIn("no torch >= 2.11", old.stderr)

    def test_fetched_one_is_found(self):
        with tempfile.TemporaryDirectory(prefix="lockstep ünit ") as scratch:
            fetched = self.torch(pathlib.Path(scratch, "lockstep/torch-2.11.0/torch"), 2, 11)
            python = pathlib.Path(scratch, "python3")  # one that has no torch
            python.write_text("#!/bin/sh\nexit 1\n")
            python.chmod(0o755)
            found = self.find(LOCKSTEP_TORCH_DIR="", XDG_CACHE_HOME=scratch, PATH=f"{scratch}:/usr/bin:/bin")
            self.assertEqual(found.stdout.strip(), fetched)


class CacheFolder(unittest.TestCase):
    """Wherever HOME and its kin point, set-up has a folder, or says which variable to set."""

    def run_in(self, script, **env):
        env = {name: value for name, value in {**os.environ, "HOME": None, "XDG_CACHE_HOME": None, "TMPDIR": None, **env}.items() if value is not None}
        return subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, capture_output=True, text=True, env=env)

    def cache(self, **env):
        done = self.run_in(". tools/setup; echo cache=$LOCKSTEP_CACHE; mktemp -u >/dev/null", **env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip().splitlines()[-1].removeprefix("cache=")

    def test_the_usual_ones(self):
        with tempfile.TemporaryDirectory() as scratch:
            self.assertEqual(self.cache(HOME=scratch), scratch + "/.cache/lockstep")
            spaced = scratch + "/a b"
            self.assertEqual(self.cache(HOME=scratch, XDG_CACHE_HOME=spaced), spaced + "/lockstep")
            self.assertEqual(self.cache(HOME=scratch, XDG_CACHE_HOME=""), scratch + "/.cache/lockstep")

    def test_a_home_that_is_none(self):
        with tempfile.TemporaryDirectory() as scratch:
            missing = scratch + "/none"
            for home in (None, "", missing, "/proc"):
                found = self.cache(HOME=home)
                self.assertTrue(os.path.isabs(found) and os.access(found, os.W_OK), (home, found))
                self.assertEqual(self.run_in("tools/find_torch >/dev/null || test $? = 1", HOME=home).stderr, "")
            self.assertFalse(os.path.exists(missing))
            self.cache(HOME=scratch, TMPDIR=missing)

    def test_what_was_fetched_elsewhere_is_found(self):
        with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as cache:
            os.makedirs(home + "/.cache/lockstep")
            listed = self.run_in("tools/cache_folder --all", HOME=home, XDG_CACHE_HOME=cache + "/none").stdout.splitlines()
            self.assertIn(home + "/.cache/lockstep", listed)
            self.assertNotIn(cache + "/none/lockstep", listed)


class Recipes(unittest.TestCase):
    PAGE = """
```sh
git clone --depth 1 https://somewhere/pictures cifar
python3 recipes/cifar_data.py folders cifar Dataset_2 Train=train:441
./build/release/bin/lockstep run classifier --data Dataset_2 --epochs 5
```

<!-- expect: classifier on avx512 within 0.002 -->

| epoch | loss |
|---|---|
| 1 | 1.5000, 0.25 |
| 2 | 1.0000, 0.50 |

<!-- expect: classifier within 0.1 -->

```text
epoch 1: loss 1.5 of 3
epoch 2: loss 1.0 of 3
```

```sh
python3 recipes/seeded_weights.py resnet34 weights.pth
./build/release/bin/lockstep run classifier --weights weights.pth
```
"""

    def setUp(self):
        self.tool = load("check_recipes")

    def problems(self, found, kind="avx512", shortened=False):
        report = self.tool.Report()
        ((tolerance, text),), _ = self.tool.expectations(self.PAGE, "classifier", kind)
        if isinstance(found, dict):
            report.table(text, found, tolerance)
        else:
            report.lines(text, found, tolerance)
        said = report.summary(shortened)
        return said, report.problems

    def test_a_table_is_compared_with_its_limit(self):
        equal = {1: [1.50004, 0.25], 2: [1.0, 0.5]}
        self.assertEqual(self.problems(equal), ("4 equal, 0 within the limit", []))
        near = {1: [1.5019, 0.25], 2: [1.0, 0.5]}
        self.assertEqual(self.problems(near), ("3 equal, 1 within the limit (most off: 0.0019)", []))
        _, (problem,) = self.problems({1: [1.5022, 0.25], 2: [1.0, 0.5]})
        self.assertEqual(problem, "epoch 1: 1.5000 expected, 1.5022 printed, off by 0.0022, limit 0.002")

    def test_what_is_not_printed_is_missed_unless_the_run_is_shortened(self):
        first = {1: [1.5, 0.25]}
        self.assertEqual(self.problems(first, shortened=True), ("2 equal, 0 within the limit, 2 not reached", []))
        self.assertEqual(self.problems(first)[1], ["2 numbers are not printed"])
        self.assertEqual(self.problems({}, shortened=True)[1], ["nothing was compared"])
        self.assertEqual(self.problems({1: [1.5], 2: [1.0, 0.5]})[1], ["epoch 1: 2 numbers expected, 1 printed"])

    def test_lines_are_compared_but_for_their_fractions_letter_by_letter(self):
        both = "start\nepoch 1: loss 1.4 of 3\nmore\nepoch 2: loss 1.0 of 3\n"
        self.assertEqual(self.problems(both, "avx2"), ("1 equal, 1 within the limit (most off: 0.1)", []))
        self.assertIn("off by 0.5", self.problems(both.replace("1.4", "1.0"), "avx2")[1][0])
        self.assertEqual(self.problems(both.replace("1.0 of 3", "1.0 of 4"), "avx2")[1], ["1 numbers are not printed"])

    def test_numbers_of_another_cpu_are_not_taken(self):
        self.assertEqual(self.tool.expectations(self.PAGE.replace("classifier within", "classifier on avx512 within"), "classifier", "avx2"),
                         ([], 2))

    def test_a_block_is_run_shortened_behind_what_was_prepared_for_it(self):
        prepared = ["git clone --depth 1 https://somewhere/pictures cifar",
                    "python3 recipes/cifar_data.py folders cifar Dataset_2 Train=train:441"]
        run = "./build/release/bin/lockstep run classifier "
        self.assertEqual(self.tool.commands(self.PAGE, "classifier", "--epochs 2"), [*prepared, run + "--data Dataset_2 --epochs 2"])
        self.assertEqual(self.tool.commands(self.PAGE, "classifier_seeded", "--max-steps 3"),
                         [*prepared, "python3 recipes/seeded_weights.py resnet34 weights.pth",
                          run + "--weights weights.pth --max-steps 3"])

    def test_each_case_has_its_commands_and_a_comparison(self):
        for name, (readme, _, _, reader) in self.tool.CASES.items():
            page = (ROOT / "recipes" / readme / "README.md").read_text()
            self.assertTrue(self.tool.commands(page, name, ""), name)
            _, count = self.tool.expectations(page, name, "avx2")
            # The first compares itself; of the others what they print at their end is looked for.
            self.assertTrue(count or name == "convnet" or isinstance(reader, str), name)


class Screenshots(unittest.TestCase):
    def refused(self, *words, **env):
        done = subprocess.run([ROOT / "tools/screenshots", *words], capture_output=True, text=True,
                              env={**os.environ, "LOCKSTEP_TEST_DATA": "", **env})
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_what_is_missing_is_said(self):
        self.assertIn("give --data DIR or set LOCKSTEP_TEST_DATA", self.refused())
        self.assertIn("--data needs a folder", self.refused("--data"))
        self.assertIn("unknown option '--dta'", self.refused("--dta", "x"))
        with tempfile.TemporaryDirectory() as scratch:
            self.assertIn(f"'{scratch}' has neither cifar10-jpeg.tar.zst nor train/", self.refused(LOCKSTEP_TEST_DATA=scratch))
            self.assertIn(f"'{scratch}' has neither", self.refused("--data", scratch, LOCKSTEP_TEST_DATA="/nowhere"))
            for split in ("train", "test"):
                pathlib.Path(scratch, split, "airplane").mkdir(parents=True)
            pathlib.Path(scratch, "chromium").write_text("#!/bin/sh\n")
            pathlib.Path(scratch, "chromium").chmod(0o755)
            self.assertIn("'no-build/bin/lockstep' is not there",
                          self.refused("no-build", "--data", scratch, PATH=f"{scratch}:/usr/bin:/bin"))

    def test_the_other_picture_needs_its_programs(self):
        done = subprocess.run([ROOT / "tools/kill_picture", "no-build", "--out", "/dev/null"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no-build/bin/lockstep' is not there", done.stderr)


if __name__ == "__main__":
    unittest.main()
