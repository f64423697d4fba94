// A doorbell: a word that anyone increments and one process waits on (docs/design/protocol.md,
// "Waiting"). Process-shared futex; std::atomic::wait is process-private and would never wake a
// peer.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/deadline.h"

namespace lockstep {

// Lives in shared memory; all zero is a valid initial state.
struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> rings;    // futex word
  std::atomic<std::uint32_t> waiting;  // 1 while the owner may be asleep
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// Any process. Everything stored before ring() is visible to the owner after its wait() returns.
void ring(Doorbell& bell);

// The owner only. Returns at once if bell.rings != seen, else sleeps until a ring or the deadline.
// Usage: seen = bell.rings.load(acquire); check the condition; wait(bell, seen, deadline); repeat.
void wait(Doorbell& bell, std::uint32_t seen, Deadline deadline);

// The owner only. Looks at done() after each ring; false: the deadline came first.
template <class Done>
bool wait_until(Doorbell& bell, Done&& done, Deadline deadline) {
  for (;;) {
    const std::uint32_t seen = bell.rings.load(std::memory_order_acquire);
    if (done()) return true;
    if (deadline.passed()) return false;
    wait(bell, seen, deadline);
  }
}

// The same, as long as it takes.
template <class Done>
void await(Doorbell& bell, Done&& done) {
  wait_until(bell, done, Deadline::never());
}

}  // namespace lockstep
