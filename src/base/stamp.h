// Of what a leader says: its term, and the number of its facts in it. The newest counts.
#pragma once

#include <compare>
#include <cstdint>

namespace lockstep {

struct Stamp {
  std::uint64_t term = 0, seq = 0;
  friend auto operator<=>(const Stamp&, const Stamp&) = default;
};

}  // namespace lockstep
