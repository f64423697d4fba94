#include "coord/crashes.h"

#include "coord/board.h"

namespace lockstep::coord {

bool CrashLedger::add(Txn txn, std::span<const std::uint32_t> shares) {
  bool hopeless = false;
  for (const std::uint32_t share : shares)
    hopeless = ++crashes_[{txn, share}] >= kMostOwners || hopeless;
  if (crashes_.empty()) return hopeless;
  // Nobody is so far behind.
  const std::uint64_t newest = crashes_.rbegin()->first.first.value();
  std::erase_if(crashes_,
                [&](const auto& one) { return one.first.first.value() + kGenerations < newest; });
  return hopeless;
}

}  // namespace lockstep::coord
