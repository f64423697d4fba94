// Slurm's lists of nodes, "rack[0-1]n[8-11],login,b[09-10]-ib", expanded without scontrol.
//
// Format: hostlist(3) of Slurm's sources: names between commas; brackets hold numbers and ranges,
// which keep the leading zeros of their first number; of several brackets in a name the last one
// counts up first. Order and duplicates stay. Threads: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::launcher {

inline constexpr std::size_t kMostListBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMostNameBytes = 255;  // as DNS has it

// kUsage, before anything large is made: a list of more than `limit` names or kMostListBytes, a
// name longer than kMostNameBytes, an empty name, brackets that are not closed, nested or empty, a
// range that goes down, what is no number in brackets, blanks.
Result<std::vector<std::string>> expand_hostlist(std::string_view text, std::size_t limit);

}  // namespace lockstep::launcher
