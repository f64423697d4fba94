// What a keeper does with the moments that it waits for. `each(visit)` calls visit(at, what) for
// each of them: `at` in the turn's nanoseconds, `what` is to be done then.
//
// Threads: functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace lockstep::coord {

// Does the first that is due, alone: what it does may end others. False: none is.
template <class Each>
bool fire_one(std::uint64_t now, const Each& each) {
  std::function<void()> due;
  each([&](std::uint64_t at, auto what) {
    if (!due && at <= now) due = what;
  });
  if (due) due();
  return due != nullptr;
}

// The earliest one, `until` at the latest.
template <class Each>
std::uint64_t earliest(std::uint64_t until, const Each& each) {
  each([&](std::uint64_t at, const auto&) { until = std::min(until, at); });
  return until;
}

}  // namespace lockstep::coord
