// How a process ended, and what that says. Values; any thread.
#pragma once

#include <span>
#include <string>

namespace lockstep::coord {

// Exactly one of code >= 0 and signal > 0; neither: not known, of a process that is not our child.
struct ExitStatus {
  int code = -1;
  int signal = 0;
  bool is_unknown() const { return code < 0 && signal == 0; }
};

std::string describe(ExitStatus status);  // "exit 7", "SIGKILL", "cause unknown"
// By a signal that somebody sent, or unknown; an exit or SIGSEGV and its kin are the program's own
// doing.
bool is_from_outside(ExitStatus status);
// By one of these signals, which ask for an end; a shell says 128 + N of what it has run.
bool is_by(ExitStatus status, std::span<const int> signals);
// Wrong usage or bad data, by the code alone: another try would only meet it again.
bool is_wrong_input(ExitStatus status);

}  // namespace lockstep::coord
