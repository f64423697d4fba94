#include "coord/wire_cost.h"

#include <algorithm>
#include <numeric>

#include "coord/ownership.h"
#include "coord/tree.h"

namespace lockstep::coord {

std::uint32_t most_sums_of_a_host(std::uint32_t virtual_workers,
                                  std::span<const std::uint32_t> workers) {
  const Blocks blocks(0, virtual_workers, workers);
  std::size_t most = 1;
  for (std::uint32_t h = 0; h < workers.size(); ++h)
    most = std::max(most, cover(blocks.first(h), blocks.size(h), virtual_workers).size());
  return static_cast<std::uint32_t>(most);
}

std::optional<std::uint32_t> with_one_sum_a_host(std::uint32_t virtual_workers,
                                                 std::span<const std::uint32_t> workers) {
  const std::uint32_t end = std::min(4 * virtual_workers, kMaxVirtualWorkers);
  const auto all = std::accumulate(workers.begin(), workers.end(), std::uint32_t{0});
  const auto is_even = [&](std::uint32_t v) { return 4 * ((v + all - 1) / all) * all <= 5 * v; };
  for (std::uint32_t v = virtual_workers + 1; v <= end; ++v)
    if (is_even(v) && most_sums_of_a_host(v, workers) == 1) return v;
  return std::nullopt;
}

}  // namespace lockstep::coord
