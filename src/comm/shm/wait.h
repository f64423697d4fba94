// Waiting on one's own doorbell, and a first cause that sticks. Shared by the exchange and the
// group.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/deadline.h"
#include "base/futex.h"
#include "lockstep/status.h"

namespace lockstep::comm::shm {

// Returns once bell.rings != seen or at the deadline. `spin`: looks for a moment before it sleeps.
void await_ring(Doorbell& bell, std::uint32_t seen, bool spin, Deadline deadline);

// The first error given to fail() stays. Threads: any.
class FirstCause {
 public:
  void fail(Error cause);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  Status status() const;
  Error error() const;  // precondition: failed()

 private:
  mutable std::mutex mutex_;
  std::atomic<bool> failed_{false};
  Error first_;
};

}  // namespace lockstep::comm::shm
