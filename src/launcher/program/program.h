// What to start: finds the program's file, decides whether it links Lockstep, and builds its
// command line.
//
// Errors: kUsage for a program that is not there, cannot be executed, or links another version of
// Lockstep. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "launcher/options/options.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

struct Program {
  std::string name;                    // as it was given: a script's or module's own
  std::string file;                    // for execve
  std::vector<std::string> arguments;  // argv, argv[0] first
  // Talks to the agent: it, or a library that it needs, has the ELF note of coord/version.h; or the
  // user says so (--linked).
  bool linked = false;
};

Result<Program> find_program(const LaunchOptions& options);

}  // namespace lockstep::launcher
