#include "coord/budget.h"

namespace lockstep::coord {

int ReplacementBudget::left(std::uint64_t committed) {
  while (!charges_.empty() && committed >= charges_.front() + give_back_after_)
    charges_.pop_front();
  return most_ - static_cast<int>(charges_.size());
}

bool ReplacementBudget::charge(std::uint64_t committed) {
  if (left(committed) <= 0) return false;
  charges_.push_back(committed);
  return true;
}

RestartBudget::Verdict RestartBudget::charge(std::uint64_t furthest) {
  if (spent()) return Verdict::kSpent;
  without_progress_ = used_ > 0 && furthest <= furthest_ ? without_progress_ + 1 : 0;
  if (without_progress_ >= most_without_progress_) return Verdict::kNoProgress;
  furthest_ = furthest;
  ++used_;
  return Verdict::kAllowed;
}

}  // namespace lockstep::coord
