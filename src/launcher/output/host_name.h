// This machine's name for people, in messages and names of folders; nobody can be reached by it.
#pragma once

#include <string>

namespace lockstep::launcher {

std::string host_name();

}  // namespace lockstep::launcher
