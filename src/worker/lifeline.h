// Of a worker that was started by hand: the kernel does not end it with the launcher, so a thread
// waits for the end of a socket.
#pragma once

#include <atomic>
#include <thread>

#include "base/unique_fd.h"

namespace lockstep::worker {

// Ends the process, at once and with a line on standard error, when the launcher says so (its
// exit code) or is gone (1). The thread takes no signals. Threads: let_go() from any.
class Lifeline {
 public:
  explicit Lifeline(UniqueFd agent);
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  // This process ends by itself: nothing is done or said any more.
  void let_go() { let_go_ = true; }

 private:
  void watch();

  UniqueFd agent_, ended_;  // an eventfd
  std::atomic<bool> let_go_ = false;
  std::thread thread_;
};

}  // namespace lockstep::worker
