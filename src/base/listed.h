// Lists in messages. Threads: any.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

// "a, b and 3 more": `first` are the first of so many `in_all`.
std::string listed(const std::vector<std::string>& first, std::size_t in_all);

}  // namespace lockstep
