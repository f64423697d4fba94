// What is to happen later, in a loop: any number of times behind one timerfd.
//
// Ownership: `loop` must outlive the object. Errors: kUnavailable. Threads: the loop's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "base/deadline.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "lockstep/status.h"

namespace lockstep::control {

class Timers {
 public:
  using Handler = std::function<void()>;
  static Result<std::unique_ptr<Timers>> open(Loop& loop);
  ~Timers();
  Timers(const Timers&) = delete;
  Timers& operator=(const Timers&) = delete;

  // One call that is to come, as long as it lives. It may outlive the Timers.
  class Timer {
   public:
    Timer() = default;
    Timer(Timer&& other) noexcept : pending_(std::move(other.pending_)) {}
    Timer& operator=(Timer&& other) noexcept;
    ~Timer() { cancel(); }
    void cancel();

   private:
    friend class Timers;
    struct Pending;
    explicit Timer(std::shared_ptr<Pending> pending) : pending_(std::move(pending)) {}
    std::shared_ptr<Pending> pending_;
  };
  // Calls `handler` once, from the loop, at that moment or soon after it.
  [[nodiscard]] Timer at(Deadline moment, Handler handler);
  [[nodiscard]] Timer in(std::chrono::milliseconds time, Handler handler) {
    return at(Deadline::in(time), std::move(handler));
  }

 private:
  Timers(Loop& loop, UniqueFd clock) : loop_(loop), clock_(std::move(clock)) {}
  void ring();
  void wind();

  Loop& loop_;
  UniqueFd clock_;
  using Queue = std::multimap<Deadline::Clock::time_point, std::shared_ptr<Timer::Pending>>;
  std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
};

struct Timers::Timer::Pending {
  Handler handler;
  std::weak_ptr<Queue> queue;
  Queue::iterator place;
};

}  // namespace lockstep::control
