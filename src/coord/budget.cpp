#include "coord/budget.h"

#include "base/no_restart.h"

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

RestartBudget::Verdict RestartBudget::charge(const std::optional<Place>& place) {
  if (spent()) return Verdict::kSpent;
  if (place) {
    if (!place->error.empty() && !errors_.emplace(place->txn, place->error).second)
      return Verdict::kSameError;
    without_progress_ = used_ > 0 && place->furthest <= furthest_ ? without_progress_ + 1 : 0;
    if (without_progress_ >= most_without_progress_) return Verdict::kNoProgress;
    furthest_ = place->furthest;
  }
  ++used_;
  return Verdict::kAllowed;
}

std::string RestartBudget::announcement() const {
  return "the group starts again (restart " + std::to_string(used_) + " of " +
         std::to_string(most_) + ")";
}

std::string RestartBudget::refusal(const std::string& from) const {
  return no_restart(most_, from);
}

}  // namespace lockstep::coord
