// The leaves of a node that exist, as a half-open range.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "coord/tree.h"

namespace lockstep::coord {

inline std::pair<std::uint32_t, std::uint32_t> range(Node node, std::uint32_t virtual_workers) {
  const std::uint64_t end = (std::uint64_t{node.index} + 1) << node.level;
  return {node.first_leaf(),
          static_cast<std::uint32_t>(std::min<std::uint64_t>(end, virtual_workers))};
}

}  // namespace lockstep::coord
