// The signals that ask for an end, and torchrun's --signals-to-handle.
//
// Errors: kUsage, naming the option and the word. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::launcher {

// TERM, INT, HUP and QUIT, which torchrun handles by default, and those named.
std::vector<int> stop_signals(const std::vector<int>& named);

// Each once. Names with or without SIG, in any case, or numbers; SIGRTMIN+N and SIGRTMAX-N. What
// cannot mean an end is refused: signals that nobody can handle, that a program gets for a fault of
// its own, that stop and continue it, and those that Lockstep needs itself.
Result<std::vector<int>> parse_signals(const std::string& list);

}  // namespace lockstep::launcher
