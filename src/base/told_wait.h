// A wait for another process, which its work or its end is over with, so that it has no limit or a
// long one: a person is told.
//
// Threads: one.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/deadline.h"

namespace lockstep {

class ToldWait {
 public:
  // `whom`: "process 12 to unpack 'x'", asked when it is told.
  explicit ToldWait(std::function<std::string()> whom,
                    Deadline::Clock::duration first = std::chrono::seconds(30))
      : whom_(std::move(whom)), next_(first) {}

  // Between two looks: 50 ms, and tell().
  void pause();
  // After 30 s, and each time the wait has doubled since, it says how long it has been.
  void tell();

 private:
  const std::function<std::string()> whom_;
  const Deadline::Clock::time_point since_ = Deadline::Clock::now();
  Deadline::Clock::duration next_;
};

}  // namespace lockstep
