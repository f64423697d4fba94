// Members of a set as the tests name them: one stay of each host.
#pragma once

#include "quorum/set.h"

namespace lockstep::quorum {

inline constexpr Member kA{0, 1}, kB{1, 1}, kC{2, 1}, kD{3, 1};

}  // namespace lockstep::quorum
