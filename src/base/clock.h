// A clock by its name. CLOCK_MONOTONIC (base/deadline.h) stands still while the machine is
// suspended; CLOCK_BOOTTIME goes on. The first is for what all on this machine do, who sleep with
// it; the second for what others may have done meanwhile.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace lockstep {

// Nanoseconds; comparable across the processes of a host. Async-signal-safe.
inline std::uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

constexpr std::uint64_t ns(std::chrono::milliseconds time) {
  return static_cast<std::uint64_t>(time.count()) * 1'000'000;
}

}  // namespace lockstep
