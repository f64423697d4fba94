// This program, as the launcher that it starts is to name it.
#pragma once

#include <string>
#include <vector>

namespace lockstep::worker {

// Its file, and its arguments for people who look at the list of processes.
std::vector<std::string> own_command();

}  // namespace lockstep::worker
