// When transactions were committed, as an observer sees it who looks often. Threads: one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/deadline.h"
#include "coord/board.h"

namespace lockstep::bench {

class StepClock {
 public:
  explicit StepClock(coord::Board board) : board_(board) {}

  // A transaction counts as committed once the first worker has applied it.
  void look() {
    std::uint64_t applied = 0;
    for (std::uint32_t s = 0; s < coord::kMaxSlots; ++s)
      applied = std::max(applied, board_.slot(Slot(s)).applied.load());
    if (applied > at_ns_.size()) at_ns_.resize(applied, 0);
    if (applied > 0 && at_ns_.back() == 0) at_ns_.back() = monotonic_ns();
  }

  bool committed(std::uint64_t txn) const { return txn < at_ns_.size(); }

  // Milliseconds from the commit before to txn's; 0: one of them was not seen.
  double step_ms(std::uint64_t txn) const {
    if (txn == 0 || !committed(txn) || at_ns_[txn] == 0 || at_ns_[txn - 1] == 0) return 0;
    return static_cast<double>(at_ns_[txn] - at_ns_[txn - 1]) / 1e6;
  }

  // Of all steps seen, disturbed or not; 0: none.
  double median_ms() const {
    std::vector<double> steps;
    for (std::uint64_t txn = 1; txn < at_ns_.size(); ++txn)
      if (step_ms(txn) > 0) steps.push_back(step_ms(txn));
    if (steps.empty()) return 0;
    std::ranges::nth_element(steps, steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2));
    return steps[steps.size() / 2];
  }

 private:
  coord::Board board_;
  std::vector<std::uint64_t> at_ns_;  // of transaction i; 0: not seen
};

}  // namespace lockstep::bench
