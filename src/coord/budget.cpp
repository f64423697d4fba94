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
    const std::string error = place->error.substr(0, kMostError);
    if (!error.empty() && !used_.errors.emplace(place->txn, error).second)
      return Verdict::kSameError;
    const bool none = used_.restarts > 0 && place->furthest <= used_.furthest;
    used_.without_progress = none ? used_.without_progress + 1 : 0;
    if (used_.without_progress >= most_without_progress_) return Verdict::kNoProgress;
    used_.furthest = place->furthest;
  }
  ++used_.restarts;
  return Verdict::kAllowed;
}

std::string RestartBudget::announcement() const {
  return "the group starts again (restart " + std::to_string(used_.restarts) + " of " +
         std::to_string(most_) + ")";
}

std::string RestartBudget::refusal(const std::string& from) const {
  return no_restart(most_, from);
}

}  // namespace lockstep::coord
