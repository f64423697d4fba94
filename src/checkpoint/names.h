// Which tensor of a file is which of a module, by name.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

struct Matching {
  std::vector<std::optional<std::size_t>> source;  // for each of `own`: its index in `given`
  std::vector<std::size_t> rest;                   // of `given`, those that none of `own` is
};

// Equal names are one tensor. What is left is compared without the components "module"
// (DistributedDataParallel's) and "_orig_mod" (torch.compile's), on both sides and at any depth,
// and taken where there is exactly one of each. A prefix of such components before all names comes
// off first if more names are equal then. Pure; names of `own` differ from each other.
Matching match_names(std::span<const std::string> own, std::span<const std::string> given);

// "; the nearest: 'a' and 'b'" for the end of a message; empty if none of `known` is near: at most
// two that end as the name does (or that it ends as), or else the one that is fewest edits away.
std::string nearest_names(std::string_view name, std::span<const std::string> known);

}  // namespace lockstep::checkpoint
