// A doorbell that an event loop hears: a futex and sockets cannot be waited for in one call, so a
// thread waits for the bell and writes to an eventfd that the loop has.
//
// After it has told the loop it rests: whoever rings meanwhile pays one addition and wakes nobody,
// and all of those rings are told as one. So a busy board costs at most one wake-up in `rest`.
//
// Ownership: loop and bell must outlive it. Errors: kUnavailable. Threads: the loop's; the bell is
// this object's to wait on, and anybody's to ring.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "base/futex.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "lockstep/status.h"

namespace lockstep::carrier {

class BellWatch {
 public:
  // `rung`: called from the loop after each ring since start(), once for several.
  static Result<std::unique_ptr<BellWatch>> start(Loop& loop, Doorbell& bell,
                                                  std::chrono::microseconds rest,
                                                  std::function<void()> rung);
  ~BellWatch();
  BellWatch(const BellWatch&) = delete;
  BellWatch& operator=(const BellWatch&) = delete;

 private:
  BellWatch(Loop& loop, Doorbell& bell, std::chrono::microseconds rest, UniqueFd event)
      : loop_(loop), bell_(bell), rest_(rest), event_(std::move(event)) {}
  void watch(std::uint32_t seen);

  Loop& loop_;
  Doorbell& bell_;
  const std::chrono::microseconds rest_;
  UniqueFd event_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace lockstep::carrier
