// Where a user's caches are.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// The first is the usual one: $XDG_CACHE_HOME (if it is absolute: the XDG base directory
// specification), $HOME/.cache, the same of the home in the user database. Without those that are
// not set; a home has to be there. Whether one can be written is not looked at.
std::vector<std::string> cache_folders();

}  // namespace lockstep
