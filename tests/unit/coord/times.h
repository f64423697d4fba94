// Lengths of time as the rules count them, in nanoseconds.
#pragma once

#include <cstdint>

namespace lockstep::coord {

inline constexpr std::uint64_t kMillisecond = 1'000'000, kSecond = 1'000'000'000;

}  // namespace lockstep::coord
