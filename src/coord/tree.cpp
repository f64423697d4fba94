#include "coord/tree.h"

#include <bit>

namespace lockstep::coord {

std::vector<Node> cover(std::uint32_t first, std::uint32_t count, std::uint32_t virtual_workers) {
  std::vector<Node> nodes;
  const std::uint32_t end = first + count;
  // At the right edge the padding counts as covered, so that the last block folds as far as it can.
  const std::uint32_t padded_end = end == virtual_workers ? std::bit_ceil(virtual_workers) : end;
  while (first < end) {
    std::uint32_t level = first == 0 ? 31u : static_cast<std::uint32_t>(std::countr_zero(first));
    while ((std::uint64_t{1} << level) > padded_end - first) --level;
    nodes.push_back({level, first >> level});
    first += 1u << level;
  }
  return nodes;
}

}  // namespace lockstep::coord
