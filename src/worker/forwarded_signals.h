// While a run of lockstep::spawn() lasts: signals that ask for an end go to its launcher, or to the
// ranks that the caller has started.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <span>

#include "base/unique_fd.h"
#include "lockstep/status.h"

namespace lockstep::worker {

// A system call that lockstep::spawn() needs has failed, for the reason in errno.
Error spawn_refused(const char* call);

class ForwardedSignals {
 public:
  // Blocks INT, TERM, QUIT, and HUP unless it is ignored (nohup); SIGCHLD gets its default, for a
  // program that reaps or ignores all children would take the launcher's exit status. Undone by
  // restore() or the destructor. Errors: kUnavailable.
  static Result<ForwardedSignals> take();
  ForwardedSignals(ForwardedSignals&& other) noexcept;
  ForwardedSignals& operator=(ForwardedSignals&&) = delete;
  ~ForwardedSignals() { restore(); }

  // Sends them to the child `pid` until it has ended, and reaps it. Without a deadline: a run takes
  // as long as it takes.
  Result<siginfo_t> forward_until_end(pid_t pid);
  // The same with several; `ended` is called for each, as they end.
  Status forward_until_end(std::span<const pid_t> pids,
                           const std::function<void(const siginfo_t&)>& ended);
  // The last one that was forwarded; 0: none.
  int last() const { return last_; }
  // Also in a forked child, for itself.
  void restore();

 private:
  ForwardedSignals() = default;
  void forward(std::span<const pid_t> pids, std::span<const pollfd> entries);

  UniqueFd signals_;
  sigset_t old_mask_{};
  struct sigaction old_child_ {};
  bool taken_ = false;
  int last_ = 0;
};

}  // namespace lockstep::worker
