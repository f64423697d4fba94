// Of a worker that was started by hand: the kernel does not end it with the launcher, so a thread
// waits for the end of a socket.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "base/unique_fd.h"
#include "lockstep/status.h"

namespace lockstep::worker {

// Ends the process, at once and with a line on standard error, when the launcher says so (its
// exit code) or is gone (1). The thread takes no signals. Threads: let_go() from any.
class Lifeline {
 public:
  // Errors: kUnavailable, without a descriptor or a thread to be had.
  static Result<std::unique_ptr<Lifeline>> open(UniqueFd agent);
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  // This process ends by itself: nothing is done or said any more.
  void let_go() { let_go_ = true; }

 private:
  Lifeline(UniqueFd agent, UniqueFd ended) : agent_(std::move(agent)), ended_(std::move(ended)) {}
  void watch();

  UniqueFd agent_, ended_;  // an eventfd
  std::atomic<bool> let_go_ = false;
  std::thread thread_;
};

}  // namespace lockstep::worker
