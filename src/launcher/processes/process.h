// Starting, signalling and reaping processes. The launcher is their only parent and reaps each
// exactly once, so that a pid in its books is never another process; those that were started by
// hand it knows by their pidfd.
//
// Errors: kUsage if the program cannot be executed, kUnavailable for what the system refuses.
// Threads: the main thread only: the parent-death signal follows the thread that forked.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

// What the child has of the launcher's terminal.
enum class TerminalUse {
  kNone,   // a session of its own; its standard input is /dev/null if the launcher's is a terminal
  kReads,  // a session of its own, with the launcher's standard input
  // Standard input, session and process group: what is typed, ^C and ^Z reach it as they reach a
  // program that a shell has started.
  kShares,
};

struct SpawnSpec {
  std::string file;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // NAME=value, complete
  int stdout_fd = 1;
  int stderr_fd = 2;
  // Descriptors that stay open under the same number; all others are closed.
  std::vector<int> inherited;
  TerminalUse terminal = TerminalUse::kNone;
  // In memory shared with the child, which writes its pid there before it executes; 0 again: it
  // could not. nullptr: nobody asks.
  std::atomic<pid_t>* pid_slot = nullptr;
};

// As many for us as the system permits; what we start has what we had. Returns how many.
std::size_t use_all_descriptors();

// Forks and executes. The child is the leader of its own session (but with kShares) and gets
// SIGKILL when the launcher dies; its signals are unblocked and default.
Result<pid_t> spawn_process(const SpawnSpec& spec);

struct ChildEvent {
  enum Kind { kExited, kKilled, kStopped, kContinued } kind;
  pid_t pid;
  int status;  // exit code or signal
};
// The next change of any child, nullopt if there is none now. Reaps the dead; each is told to
// `ended` before, while its pid is no other process's.
std::optional<ChildEvent> next_child_event(const std::function<void(pid_t)>& ended = {});

// To the process and its group (which has the same number).
void signal_group(pid_t pid, int signal);

// To the one process of a pidfd, which is nobody else's.
void signal_process(int process, int signal);

}  // namespace lockstep::launcher
