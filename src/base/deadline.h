// A point in time by which a wait must end. Made once at the top of an operation, passed down by
// value.
#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC: equal in all processes of a host

  static Deadline in(Clock::duration time) { return Deadline(Clock::now() + time); }
  static Deadline at(Clock::time_point point) { return Deadline(point); }
  // For a wait that ends with its process: whoever it waits for is a child of the same launcher,
  // which ends them all (src/worker/lifeline.h).
  static Deadline never() { return Deadline(Clock::time_point::max()); }

  bool passed() const { return Clock::now() >= point_; }
  // Never negative.
  Clock::duration left() const {
    const auto now = Clock::now();
    return now >= point_ ? Clock::duration::zero() : point_ - now;
  }
  Clock::time_point point() const { return point_; }

 private:
  explicit Deadline(Clock::time_point point) : point_(point) {}
  Clock::time_point point_;
};

// Between two looks at what nobody announces. The one way to sleep here; loops around it have a
// deadline.
void pause(std::chrono::nanoseconds time);

// CLOCK_MONOTONIC in nanoseconds; comparable across the processes of a host.
inline std::uint64_t monotonic_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        Deadline::Clock::now().time_since_epoch())
                                        .count());
}

}  // namespace lockstep
