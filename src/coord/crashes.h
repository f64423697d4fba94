// Shares that crash whoever computes them: counts, by transaction, how many owners of a share ended
// by their own doing, on whichever hosts. Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "base/ids.h"

namespace lockstep::coord {

class CrashLedger {
 public:
  static constexpr int kMostOwners = 3;

  // The owner of `shares` crashed in `txn`. True: one of them has now cost kMostOwners owners,
  // another try is pointless.
  bool add(Txn txn, std::span<const std::uint32_t> shares);

  // By share; of the newest transactions.
  using Counts = std::map<std::pair<Txn, std::uint32_t>, int>;
  const Counts& counts() const { return crashes_; }
  void go_on(Counts counts) { crashes_ = std::move(counts); }

 private:
  Counts crashes_;
};

}  // namespace lockstep::coord
