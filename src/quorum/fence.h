// The fence of plain programs (rule 7): which attempt's workers may run on this host, and until
// when.
//
// Times are nanoseconds of this agent's clock; 0: never. Threads: one at a time. Errors: none.
#pragma once

#include <algorithm>
#include <cstdint>

#include "quorum/facts.h"

namespace lockstep::quorum {

class Fence {
 public:
  explicit Fence(std::uint64_t silence) : silence_(silence) {}

  // A quorum was behind the leader when this agent sent what is echoed, less the leader's quorum
  // age.
  void renew(std::uint64_t quorum_at) { quorum_at_ = std::max(quorum_at_, quorum_at); }
  bool is_fresh(std::uint64_t now) const { return quorum_at_ != 0 && now - quorum_at_ < silence_; }

  // What has fallen due; what the facts say may run.
  void pass(const Stamp& attempt, bool may_begin, std::uint64_t now);
  void end() { running_ = {}; }
  const Stamp& running() const { return running_; }
  // It has run here, and does not any more. Never again, then.
  bool is_over(const Stamp& attempt) const {
    return attempt != Stamp{} && running_ != attempt && attempt <= begun_;
  }

 private:
  std::uint64_t silence_, quorum_at_ = 0;
  Stamp running_, begun_;
};

}  // namespace lockstep::quorum
