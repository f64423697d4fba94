// How a process ended, and what that says. Values; any thread.
#pragma once

#include <string>

namespace lockstep::coord {

// Exactly one of code >= 0 and signal > 0.
struct ExitStatus {
  int code = -1;
  int signal = 0;
};

std::string describe(ExitStatus status);  // "exit 7", "SIGKILL"
// By a signal that somebody sent; an exit or SIGSEGV and its kin are the program's own doing.
bool is_from_outside(ExitStatus status);
// Wrong usage or bad data, by the code alone: another try would only meet it again.
bool is_wrong_input(ExitStatus status);

}  // namespace lockstep::coord
