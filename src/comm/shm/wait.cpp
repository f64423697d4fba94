#include "comm/shm/wait.h"

#include <immintrin.h>

#include <algorithm>
#include <utility>

namespace lockstep::comm::shm {
namespace {

// Longer than peers of even work differ by, short beside a step; sleeping and waking costs some 10
// µs to 50 µs.
constexpr std::chrono::microseconds kSpin{200};
// From then on it gives way between looks: on a busy machine the peer may be waiting for this very
// CPU.
constexpr std::chrono::microseconds kAlone{20};

}  // namespace

void await_ring(Doorbell& bell, std::uint32_t seen, bool spin, Deadline deadline) {
  if (spin) {
    const auto begin = Deadline::Clock::now();
    const auto end = std::min(begin + kSpin, deadline.point());
    auto now = begin;
    do {
      if (now - begin > kAlone) sched_yield();
      for (int i = 0; i < 32; ++i) {
        if (bell.rings.load(std::memory_order_acquire) != seen) return;
        _mm_pause();
      }
      now = Deadline::Clock::now();
    } while (now < end);
  }
  wait(bell, seen, deadline);
}

void FirstCause::fail(Error cause) {
  const std::lock_guard lock(mutex_);
  if (failed_.load(std::memory_order_relaxed)) return;
  first_ = std::move(cause);
  failed_.store(true, std::memory_order_release);
}

Error FirstCause::error() const {
  const std::lock_guard lock(mutex_);
  return first_;
}

Status FirstCause::status() const { return failed() ? Status(error()) : Status(); }

}  // namespace lockstep::comm::shm
