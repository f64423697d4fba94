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

}  // namespace lockstep::launcher
