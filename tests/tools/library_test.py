"""Lockstep as a part of somebody's CMake project: configured, not built (tools/check_install builds one). Each project here has
folders with blanks and umlauts in their names, and a libtorch that is nothing but names."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

SHOW = """
foreach(name CMAKE_BUILD_TYPE CMAKE_CXX_STANDARD CMAKE_CXX_EXTENSIONS CMAKE_POSITION_INDEPENDENT_CODE CMAKE_MODULE_PATH
        CMAKE_EXPORT_COMPILE_COMMANDS CMAKE_CXX_COMPILER_LAUNCHER CMAKE_CXX_FLAGS CMAKE_FIND_PACKAGE_TARGETS_GLOBAL
        CMAKE_INSTALL_BINDIR BUILD_TESTING)
  message("${name}=<${${name}}>")
endforeach()
"""
ADD = """cmake_minimum_required(VERSION 3.25)
project(mine LANGUAGES CXX)
include(FetchContent)
FetchContent_Declare(lockstep SOURCE_DIR "${LOCKSTEP_SOURCE}")
"""
# As of the real ones (find_package(Torch) of a wheel looks for CUDA): targets without a namespace, and some in torch::.
TORCH_CONFIG = """
foreach(name torch torch_cpu c10)
  add_library(${name} SHARED IMPORTED)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/../../../lib/lib${name}.so"
    INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/../../../include"
    INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO;USE_RPC;USE_TENSORPIPE")
endforeach()
add_library(torch::cudart INTERFACE IMPORTED)
add_library(dummy INTERFACE)
add_library(protobuf::libprotobuf ALIAS dummy)
set(TORCH_LIBRARIES torch torch_cpu c10)
add_definitions(-D_GLIBCXX_USE_CXX11_ABI=1)
set(Torch_FOUND TRUE)
"""


def make_torch(folder, version="2.11.0"):
    """A folder with the names that a libtorch has."""
    major, minor, patch = version.split(".")
    header = folder / "include/torch/headeronly/version.h"
    for file, text in {
            header: f"#define TORCH_VERSION_MAJOR {major}\n#define TORCH_VERSION_MINOR {minor}\n#define TORCH_VERSION_PATCH {patch}\n",
            folder / "include/torch/csrc/api/include/torch/torch.h": "", folder / "lib/libtorch_cpu.so": "",
            folder / "lib/libtorch.so": "", folder / "lib/libc10.so": "",
            folder / "share/cmake/Torch/TorchConfig.cmake": TORCH_CONFIG}.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


class Subproject(unittest.TestCase):
    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="lockstep ünit "))
        self.addCleanup(shutil.rmtree, self.scratch)
        self.checkout = self.scratch / "c++ & 'neu' (1)"
        self.checkout.symlink_to(ROOT)
        self.torch = make_torch(self.scratch / "my tôrch")

    def configure(self, text, *options, torch=True, env=None, ok=True, mine="", generator="Ninja"):
        """What cmake says of a project with this CMakeLists.txt."""
        source = self.scratch / "mein Projekt"
        source.mkdir(exist_ok=True)
        (source / "main.cpp").write_text("int main() {}\n")
        (source / "mine.cpp").write_text(mine)
        (source / "CMakeLists.txt").write_text(text)
        self.build = source / "büild"
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("LOCKSTEP_TORCH_DIR", "CXXFLAGS", "CMAKE_PREFIX_PATH", "CMAKE_BUILD_TYPE")}
        done = subprocess.run(["cmake", "-G", generator, "-S", source, "-B", self.build, f"-DLOCKSTEP_SOURCE={self.checkout}",
                               *([f"-DLOCKSTEP_TORCH_DIR={self.torch}"] if torch else []), *options],
                              capture_output=True, text=True, env={**environment, **(env or {})})
        self.assertEqual(done.returncode == 0, ok, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def commands(self):
        """What building everything would execute."""
        return subprocess.run(["ninja", "-C", self.build, "-t", "commands", "all"], capture_output=True, text=True, check=True).stdout

    def cached(self, name):
        lines = (self.build / "CMakeCache.txt").read_text().splitlines()
        return next((line.split("=", 1)[1] for line in lines if line.startswith(name + ":")), None)

    def torch_of(self):
        return pathlib.Path(self.cached("LOCKSTEP_TORCH_DIR")).resolve()

    def test_nothing_of_the_projects_own_changes(self):
        said = self.configure(ADD + SHOW + "FetchContent_MakeAvailable(lockstep)\n" + SHOW)
        before, after = [[line for line in part if "=<" in line] for part in
                         (said.splitlines()[:said[:said.rindex("CMAKE_BUILD_TYPE=<")].count("\n")],
                          said.splitlines()[said[:said.rindex("CMAKE_BUILD_TYPE=<")].count("\n"):])]
        self.assertEqual(len(before), 11)
        self.assertEqual(before, after)
        self.assertEqual(self.cached("CMAKE_BUILD_TYPE"), "")
        self.assertFalse((self.build / "compile_commands.json").exists())
        self.assertEqual([name for name in (self.build / "CMakeCache.txt").read_text().splitlines() if "GTest" in name], [])

    def test_other_names_for_the_same_things_do_no_harm(self):
        (self.scratch / "modules").mkdir()
        for module in ("Rooms", "Install", "FindTorchWheel"):
            (self.scratch / f"modules/{module}.cmake").write_text("message(FATAL_ERROR \"somebody else's\")\n")
        names = "classifier convnet own_loop multigpu ring lockstep_test header_samples fuzz_targets tools"
        self.configure(ADD + f"list(PREPEND CMAKE_MODULE_PATH \"{self.scratch}/modules\")\nFetchContent_MakeAvailable(lockstep)\n"
                       f"foreach(name {names})\n  add_executable(${{name}} main.cpp)\nendforeach()\nenable_testing()\n"
                       "target_link_libraries(classifier PRIVATE lockstep::lockstep)\n")
        tests = subprocess.run(["ctest", "--test-dir", self.build, "-N"], capture_output=True, text=True, check=True).stdout
        self.assertIn("Total Tests: 0", tests)

    def test_what_is_not_asked_for_is_not_built(self):
        self.configure(ADD + "FetchContent_MakeAvailable(lockstep)\nadd_executable(alone main.cpp)\n")
        self.assertIn("alone", self.commands())
        self.assertNotIn("_deps", self.commands())
        subprocess.run(["cmake", "--install", self.build, "--prefix", self.scratch / "prefix"], check=True, capture_output=True)
        self.assertEqual([path for path in (self.scratch / "prefix").rglob("*") if path.is_file()], [])

    def test_the_library_brings_its_programs_and_no_warnings_of_ours(self):
        self.make_apps()
        self.configure(ADD + "set(CMAKE_EXPORT_COMPILE_COMMANDS ON)\nset(CMAKE_CXX_STANDARD 17)\nFetchContent_MakeAvailable(lockstep)\n"
                       "add_subdirectory(apps)\n")
        for program in ("bin/lockstep", "bin/lockstep-inspect", "bin/lockstep-link"):
            self.assertRegex(self.commands(), rf" -o {program} ")
        commands = {entry["file"]: entry["command"] for entry in json.loads((self.build / "compile_commands.json").read_text())}
        mine = next(command for file, command in commands.items() if file.endswith("apps/main.cpp"))
        self.assertRegex(mine, r"-std=(gnu|c)\+\+20")
        self.assertNotRegex(mine, r"-W[a-z]|-O|-ffp")
        # The folder has a blank: one word for the compiler.
        self.assertRegex(mine, r"-idirafter (\"[^\"]*my tôrch/include\"|\S*my\\ tôrch/include) ")
        self.assertNotRegex("".join(commands.values()), r"-W(all|error|extra)")

    def make_apps(self):
        """A folder beside lockstep's, which sees no imported target of another folder, unless it is global."""
        apps = self.scratch / "mein Projekt/apps"
        apps.mkdir(parents=True)
        (apps / "main.cpp").write_text("int main() {}\n")
        (apps / "CMakeLists.txt").write_text(
            "add_library(plug SHARED main.cpp)\ntarget_link_libraries(plug PRIVATE lockstep::lockstep)\n"
            "foreach(room base pickle data train models distributed)\n  add_executable(${room} main.cpp)\n"
            "  target_link_libraries(${room} PRIVATE lockstep::${room})\nendforeach()\n")

    def test_the_projects_warnings_are_for_its_own_code(self):
        flags = "-Werror -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wold-style-cast -Wuseless-cast -Weffc++"
        self.configure(ADD + f"set(CMAKE_EXPORT_COMPILE_COMMANDS ON)\nadd_compile_options({flags})\nset(CMAKE_COMPILE_WARNING_AS_ERROR ON)\n"
                       "set(CMAKE_CXX_CLANG_TIDY /no/such/tidy)\nFetchContent_MakeAvailable(lockstep)\nset(CMAKE_CXX_CLANG_TIDY \"\")\n"
                       "add_library(mine OBJECT mine.cpp)\ntarget_link_libraries(mine PRIVATE lockstep::base)\n",
                       mine='#include "lockstep/duration.h"\n#include "lockstep/status.h"\nlockstep::Result<int> one();\n'
                            'lockstep::Status two();\nlockstep::Status two() {\n  LOCKSTEP_ASSIGN(const int n, one());\n'
                            '  return n > 0 ? lockstep::Status{} : lockstep::Status{lockstep::Error{lockstep::ErrorKind::kUsage, "no"}};\n}\n')
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            self.assertRegex(entry["command"], "-Werror" if entry["file"].endswith("mine.cpp") else "-Werror.* -w ")
        done = subprocess.run(["cmake", "--build", self.build, "--target", "mine"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("no/such/tidy", (self.build / "build.ninja").read_text())

    def test_other_generators(self):
        for generator in ("Unix Makefiles", "Ninja Multi-Config"):
            self.configure(ADD + "FetchContent_MakeAvailable(lockstep)\nadd_executable(app main.cpp)\n"
                           "target_link_libraries(app PRIVATE lockstep::lockstep)\n", generator=generator)
            shutil.rmtree(self.build)

    def test_warnings_are_errors_for_who_asks(self):
        self.configure(ADD + "set(CMAKE_EXPORT_COMPILE_COMMANDS ON)\nFetchContent_MakeAvailable(lockstep)\n", "-DLOCKSTEP_WERROR=ON")
        self.assertIn("-Werror", (self.build / "compile_commands.json").read_text())

    def test_bits_stand_over_the_projects_flags(self):
        self.configure(ADD + "set(CMAKE_EXPORT_COMPILE_COMMANDS ON)\nset(CMAKE_CXX_FLAGS \"-Ofast -march=native\")\n"
                       "FetchContent_MakeAvailable(lockstep)\n")
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            self.assertRegex(entry["command"], "-Ofast.* -fno-fast-math -ffp-contract=off -fno-math-errno ")

    def test_top_level_without_a_preset_has_no_werror_either(self):
        build = self.scratch / "plain"
        done = subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", build, "-DLOCKSTEP_TORCH=OFF"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        commands = (build / "compile_commands.json").read_text()
        self.assertIn("-Wall", commands)
        self.assertNotIn("-Werror", commands)
        self.assertIn("-O3", commands)  # a release

    def test_beside_find_package_of_torch(self):
        use = "add_executable(app main.cpp)\ntarget_link_libraries(app PRIVATE ${TORCH_LIBRARIES} lockstep::lockstep)\n"
        prefix = f"-DCMAKE_PREFIX_PATH={self.torch}/share/cmake"
        for first, second in (("find_package(Torch REQUIRED)\n", "FetchContent_MakeAvailable(lockstep)\n"),
                              ("FetchContent_MakeAvailable(lockstep)\n", "find_package(Torch REQUIRED)\n")):
            self.configure(ADD + first + second + use, prefix, torch=False)
            self.assertEqual(self.torch_of(), self.torch)
            shutil.rmtree(self.build)
        for one in (f"-DTorch_DIR={self.torch}/share/cmake/Torch", f"-DTorch_ROOT={self.torch}", f"-DCMAKE_PREFIX_PATH=/nowhere;{self.torch}"):
            self.configure(ADD + "FetchContent_MakeAvailable(lockstep)\n", one, torch=False)
            self.assertEqual(self.torch_of(), self.torch, one)
            shutil.rmtree(self.build)
        self.configure(ADD + "FetchContent_MakeAvailable(lockstep)\n", torch=False, env={"CMAKE_PREFIX_PATH": f"/nowhere:{self.torch}"})
        self.assertEqual(self.torch_of(), self.torch)

    def test_two_versions_of_torch_are_refused(self):
        other = make_torch(self.scratch / "other", "2.15.0")
        for order in ("find_package(Torch REQUIRED)\nFetchContent_MakeAvailable(lockstep)\n",
                      "FetchContent_MakeAvailable(lockstep)\nfind_package(Torch REQUIRED)\n"):
            said = self.configure(ADD + order, f"-DTorch_DIR={other}/share/cmake/Torch", ok=False)
            words = " ".join(said.split())
            self.assertIn(f"torch 2.15.0 in '{other}'", words)
            self.assertIn("Set LOCKSTEP_TORCH_DIR to the first folder", words)


if __name__ == "__main__":
    unittest.main()
