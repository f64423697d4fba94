// The sub-commands of `lockstep`. Each gets the words after its name and returns the exit code.
#pragma once

#include <span>
#include <string>

namespace lockstep::launcher {

// To standard output, whole; returns the exit code: that of kDisk where it is not taken.
int print_output(const std::string& text);

int run_command(std::span<const std::string> arguments);
int scale_command(std::span<const std::string> arguments);   // RUN_DIR N
int status_command(std::span<const std::string> arguments);  // RUN_DIR|HOST|--id ID [--json]
int stop_command(std::span<const std::string> arguments);    // HOST|--id ID
int key_command(std::span<const std::string> arguments);     // [--print | FILE]

inline constexpr const char* kScaleHelp =
    "usage: lockstep scale RUN_DIR WORKERS\n\n"
    "Grows or shrinks the live run in RUN_DIR (its --output) to that many workers: from 1 to its\n"
    "virtual workers (--virtual-workers). Newcomers take the state from a live peer and join at a\n"
    "step's end; on the way down the highest ranks leave at the next step. The weights come out\n"
    "the same. What is asked for holds until the next scale or the run's end; a later start of "
    "the\n"
    "run has --nproc-per-node workers again.\n\n"
    "Of a run on several nodes the launcher that leads is asked, on its node. WORKERS are then\n"
    "those of all nodes together, at least one on each.\n\n"
    "A run that does not train yet is waited for, 30 s at most. Exit codes: 0, the run is on its\n"
    "way to that many workers; 2, the number is wrong or the program cannot be scaled; 69, no\n"
    "launcher is running in RUN_DIR, it does not answer, or the run does not train yet; 1, the "
    "run\n"
    "is about to end.\n";

inline constexpr const char* kStatusHelp =
    "usage: lockstep status RUN_DIR [--json]\n"
    "       lockstep status HOST[:PORT],... [--key-file FILE] [--json]\n"
    "       lockstep status --id ID [--json]\n\n"
    "RUN_DIR: says how the run in that folder (its --output) is: of a live one with its members,\n"
    "of one that is finished or stopped what its records say. With --json as one line of JSON,\n"
    "with more fields (docs/design/launching.md).\n\n"
    "HOST[:PORT]: of a run on several nodes whose program does not link Lockstep (one that does\n"
    "has a RUN_DIR on each node). The endpoint where the launchers meet, port 29400 unless given;\n"
    "the one that leads answers: state, attempt and restarts, each node with rank, address, host,\n"
    "workers and the age of its last word, and for whom the run waits. The run's key is taken\n"
    "from --key-file, LOCKSTEP_RUN_KEY or ~/.config/lockstep/run_key, as 'lockstep run' takes it;\n"
    "a loopback host needs none on that machine.\n\n"
    "--id ID: of such a run with that --rdzv-id, on one of its machines, by the user who started\n"
    "it: each of its launchers there answers, whether the leader is there or not. No key is\n"
    "needed. With --json one line for each of them (docs/design/control.md).\n\n"
    "A word is RUN_DIR if it has a '/' or is a folder that is there, else HOST[:PORT]; './name' is "
    "a\n"
    "folder in any case. Exit codes: 0; 2, an argument is wrong, or there is no key that can\n"
    "be read; 69, no run is there, or one with another key, or its launcher does not answer.\n";

inline constexpr const char* kStopHelp =
    "usage: lockstep stop HOST[:PORT],... [--key-file FILE]\n"
    "       lockstep stop --id ID\n\n"
    "Ends a run on several nodes whose program does not link Lockstep, as a SIGTERM to one of its\n"
    "launchers does: all workers on all nodes get SIGTERM, and after --shutdown-timeout SIGKILL;\n"
    "all launchers end with 143. Says what it has told whom, and does not wait for the end.\n"
    "HOST[:PORT] and --id are as 'lockstep status' has them; with --id a launcher that has lost\n"
    "its leader ends by itself. Any other run ends by a SIGTERM to its launcher, or to one of\n"
    "them.\n\n"
    "Exit codes: 0, it is told, or was about to end; 2, an argument is wrong, or there is no key\n"
    "that can be read; 69, nobody is there, or one with another key, or the launcher does not "
    "answer.\n";

inline constexpr const char* kKeyHelp =
    "usage: lockstep key [--print | FILE]\n\n"
    "Makes a key, by which the launchers of one run on several machines know each other: 32\n"
    "random bytes in 64 hex digits. It goes to FILE, by default to ~/.config/lockstep/run_key\n"
    "($XDG_CONFIG_HOME/lockstep/run_key where that is set), for this user alone (0600), and the\n"
    "file's name is printed. Copy it to each machine over a safe way (scp -p), or have it in a\n"
    "shared home. A file that is there is never overwritten.\n"
    "--print: prints a key and writes no file, for LOCKSTEP_RUN_KEY or a store of secrets.\n\n"
    "Exit codes: 0; 2, the file is there already, or an argument is wrong; 1, it cannot be\n"
    "written.\n";

}  // namespace lockstep::launcher
