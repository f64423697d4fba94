// What a step's sums cost between hosts, by how the virtual workers lie on them: a host of N sends
// (N - 1) / N of its sums, one for each of the k nodes of cover(its block), and as much of the
// results: (k + 1) / 2 times the fewest bytes.
//
// Threads: values. Errors: none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace lockstep::coord {

// k of the host that has most. `workers`: that each host was asked for, in the table's order.
// 1: the fewest bytes. Precondition: at least one host, of at least one worker each.
std::uint32_t most_sums_of_a_host(std::uint32_t virtual_workers,
                                  std::span<const std::uint32_t> workers);
// The least number of virtual workers above that, up to four times as many, with which k is 1 and
// no worker has more than an even share and a quarter.
std::optional<std::uint32_t> with_one_sum_a_host(std::uint32_t virtual_workers,
                                                 std::span<const std::uint32_t> workers);

}  // namespace lockstep::coord
