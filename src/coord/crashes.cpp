#include "coord/crashes.h"

namespace lockstep::coord {

bool CrashLedger::add(Txn txn, std::span<const std::uint32_t> shares) {
  if (txn != txn_) crashes_.clear();
  txn_ = txn;
  bool hopeless = false;
  for (const std::uint32_t share : shares) {
    if (share >= crashes_.size()) crashes_.resize(share + 1);
    hopeless = ++crashes_[share] >= kMostOwners || hopeless;
  }
  return hopeless;
}

}  // namespace lockstep::coord
