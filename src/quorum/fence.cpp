#include "quorum/fence.h"

namespace lockstep::quorum {

void Fence::pass(const Stamp& attempt, bool may_begin, std::uint64_t now) {
  if (running_ != attempt || !is_fresh(now)) running_ = {};
  if (!may_begin || attempt <= begun_ || !is_fresh(now)) return;
  running_ = begun_ = attempt;
}

}  // namespace lockstep::quorum
