// The commands of the second program, `lockstep-inspect`, which lies beside this one: it takes this
// process over.
#pragma once

#include <span>
#include <string>

namespace lockstep::launcher {

// `lockstep COMMAND ARGUMENTS...`; returns an exit code only where the program cannot be started.
int inspect_command(const std::string& command, std::span<const std::string> arguments);

}  // namespace lockstep::launcher
