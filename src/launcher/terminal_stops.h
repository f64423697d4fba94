// A worker that shares the launcher's terminal is stopped with it: by ^Z, or as it reads in the
// background. The shell knows the launcher alone, and continues what it has seen stopped.
//
// The kernel stops both. But what continues both, bg say, may reach the worker first, which reads
// again at once, and then take back the launcher's new stop: the worker would stand still for ever
// in a job that seems to run. So the launcher stops itself, as the worker was, if that stays
// stopped. Where there is no shell that could continue it the kernel does not stop it.
//
// Threads: one.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

#include "base/deadline.h"

namespace lockstep::launcher {

class TerminalStops {
 public:
  void stopped(int signal) {
    if (signal != SIGTSTP && signal != SIGTTIN && signal != SIGTTOU) return;
    signal_ = signal;
    follow_at_ = Deadline::in(std::chrono::milliseconds(100));
  }
  void goes_on() { follow_at_.reset(); }  // or has ended

  // When look() has something to do.
  const std::optional<Deadline>& next() const { return follow_at_; }
  // Comes back when the launcher has been continued.
  void look() {
    if (!follow_at_ || !follow_at_->passed()) return;
    follow_at_.reset();
    ::raise(signal_);
  }

 private:
  int signal_ = 0;
  std::optional<Deadline> follow_at_;
};

}  // namespace lockstep::launcher
