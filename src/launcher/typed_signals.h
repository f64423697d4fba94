// Signals that were typed at the terminal which a single worker shares with the launcher: the
// kernel has sent them to both.
//
// ^C is the worker's business: pdb and input() go on after it. If the worker ends soon after it, in
// whatever way, the run was stopped by it. Who insists is heard: three within 5 s end the run at
// once. Threads: one.
#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

#include "base/deadline.h"

namespace lockstep::launcher {

class TypedSignals {
 public:
  enum class Meaning { kWorkersBusiness, kOnceMore, kAtOnce };
  // `patience`: for how long the worker's end counts as its answer.
  Meaning interrupted(std::chrono::milliseconds patience) {
    if (!again_until_ || again_until_->passed()) count_ = 0;
    again_until_ = Deadline::in(std::chrono::seconds(5));
    answer_until_ = Deadline::in(patience);
    ++count_;
    return count_ == 1   ? Meaning::kWorkersBusiness
           : count_ == 2 ? Meaning::kOnceMore
                         : Meaning::kAtOnce;
  }
  // A worker that ends now ends by ^C.
  bool answered() const { return answer_until_ && !answer_until_->passed(); }

  // The signal is on its way to the worker without us.
  void sent(int signal) { sent_ = signal; }
  // Whether this one need not be sent: once.
  bool take_sent(int signal) {
    if (sent_ != signal) return false;
    sent_ = 0;
    return true;
  }

 private:
  int count_ = 0, sent_ = 0;
  std::optional<Deadline> again_until_, answer_until_;
};

}  // namespace lockstep::launcher
