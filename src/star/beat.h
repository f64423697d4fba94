// How often agents tell each other their words, and people whom they wait for. Any thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace lockstep::star {

// Lines about who is missing: the first, then one every so often.
inline constexpr std::chrono::seconds kFirstLine{5}, kLineEvery{30};

// `limit_ns`: L, after which silence counts as death. Up to 100 nodes 12 words in L, and no fewer
// than 4 in a second; beyond that slower, for the leader's sake, but 8 in L: the age that the
// leader tells is up to two of them old, and so is the node's own.
inline std::chrono::milliseconds beat(std::uint64_t limit_ns, int nodes) {
  const std::uint64_t limit = limit_ns / 1'000'000;
  const std::uint64_t few = std::min<std::uint64_t>(250, limit / 12);
  const std::uint64_t many = few * static_cast<std::uint64_t>(std::max(nodes, 100)) / 100;
  return std::chrono::milliseconds(std::max<std::uint64_t>(1, std::min(many, limit / 8)));
}

}  // namespace lockstep::star
