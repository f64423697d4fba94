// One epoll set: file descriptors with their handlers, on the calling thread.
//
// Ownership: descriptors stay the caller's; remove() before closing one. Errors: kUnavailable.
// Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "lockstep/status.h"

namespace lockstep {

class Loop {
 public:
  using Handler = std::function<void()>;

  static Result<Loop> open();
  enum Readiness { kReadable, kWritable, kBoth };
  // Calls `handler` from run_once() whenever the descriptor is ready for that, or hung up.
  Status add(int fd, Handler handler, Readiness readiness = kReadable);
  void remove(int fd);
  // Waits for events until the deadline, then calls handlers. Handlers may add and remove.
  void run_once(Deadline deadline);

 private:
  explicit Loop(UniqueFd epoll) : epoll_(std::move(epoll)) {}
  UniqueFd epoll_;
  std::map<int, std::shared_ptr<Handler>> handlers_;
};

}  // namespace lockstep
