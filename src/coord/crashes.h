// Shares that crash whoever computes them: counts, within one transaction, how many owners of a
// share ended by their own doing. Threads: one at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace lockstep::coord {

class CrashLedger {
 public:
  static constexpr int kMostOwners = 3;

  // The owner of `shares` crashed in `txn`. True: one of them has now cost kMostOwners owners,
  // another try is pointless.
  bool add(Txn txn, std::span<const std::uint32_t> shares);

 private:
  Txn txn_;
  std::vector<int> crashes_;  // by share
};

}  // namespace lockstep::coord
