// The sub-commands of `lockstep`. Each gets the words after its name and returns the exit code.
#pragma once

#include <span>
#include <string>

namespace lockstep::launcher {

// To standard output, whole; returns the exit code: that of kDisk where it is not taken.
int print_output(const std::string& text);

int run_command(std::span<const std::string> arguments);
int scale_command(std::span<const std::string> arguments);   // RUN_DIR N
int status_command(std::span<const std::string> arguments);  // RUN_DIR [--json]
int key_command(std::span<const std::string> arguments);     // [--print | FILE]

inline constexpr const char* kScaleHelp =
    "usage: lockstep scale RUN_DIR WORKERS\n\n"
    "Grows or shrinks the live run in RUN_DIR (its --output) to that many workers: from 1 to its\n"
    "virtual workers (--virtual-workers). Newcomers take the state from a live peer and join at a\n"
    "step's end; on the way down the highest ranks leave at the next step. The weights come out\n"
    "the same. What is asked for holds until the next scale or the run's end; a later start of "
    "the\n"
    "run has --nproc-per-node workers again.\n\n"
    "A run that does not train yet is waited for, 30 s at most. Exit codes: 0, the run is on its\n"
    "way to that many workers; 2, the number is wrong or the program cannot be scaled; 69, no\n"
    "launcher is running in RUN_DIR, it does not answer, or the run does not train yet; 1, the "
    "run\n"
    "is about to end.\n";

inline constexpr const char* kStatusHelp =
    "usage: lockstep status RUN_DIR [--json]\n\n"
    "Says how the run in RUN_DIR (its --output) is: of a live one with its members, of one that\n"
    "is finished or stopped what its records say. With --json as one line of JSON, with more\n"
    "fields (docs/design/launching.md). Exit codes: 0; 69, no run is there, or its launcher does\n"
    "not answer.\n";

inline constexpr const char* kKeyHelp =
    "usage: lockstep key [--print | FILE]\n\n"
    "Makes a key, by which the launchers of one run on several machines will know each other: 32\n"
    "random bytes in 64 hex digits. It goes to FILE, by default to ~/.config/lockstep/run_key\n"
    "($XDG_CONFIG_HOME/lockstep/run_key where that is set), for this user alone (0600), and the\n"
    "file's name is printed. Copy it to each machine over a safe way (scp -p), or have it in a\n"
    "shared home. A file that is there is never overwritten.\n"
    "--print: prints a key and writes no file, for LOCKSTEP_RUN_KEY or a store of secrets.\n\n"
    "Exit codes: 0; 2, the file is there already, or an argument is wrong; 1, it cannot be\n"
    "written.\n";

}  // namespace lockstep::launcher
