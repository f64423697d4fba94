// The shares of the update under way whose records are marked, each looked at once: who waits asks
// at each wake.
//
// Threads: one.
#pragma once

#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "coord/board.h"

namespace lockstep::training {

class MarkedShares {
 public:
  // compare(u, v), u < v, for each share that is marked by now and was not at the call before, with
  // the first that ever was; its first error.
  template <class Compare>
  Status compare_new(Txn txn, coord::Board board, const Compare& compare) {
    if (txn_ != txn) {
      txn_ = txn;
      first_.reset();
      known_.assign(board.plan().virtual_workers, false);
    }
    for (std::size_t v = 0; v < known_.size(); ++v) {
      const auto number = static_cast<int>(v);
      if (known_[v] ||
          board.record(txn, VirtualWorker(number)).mark.load(std::memory_order_acquire) !=
              txn.value() + 1)
        continue;
      if (!first_) first_ = number;
      if (*first_ != number)
        LOCKSTEP_TRY(compare(std::min(*first_, number), std::max(*first_, number)));
      known_[v] = true;
    }
    return {};
  }

 private:
  std::optional<Txn> txn_;
  std::optional<int> first_;
  std::vector<bool> known_;
};

}  // namespace lockstep::training
