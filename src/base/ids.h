// Numbers that look alike and must not be mixed up. Each is its own type; value() is the bare
// number.
#pragma once

#include <compare>
#include <cstdint>

namespace lockstep {

template <class Tag, class Value>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(Value value) : value_(value) {}
  constexpr Value value() const { return value_; }
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  Value value_ = 0;
};

using Rank = Id<struct RankTag, int>;            // position in the current membership, 0..W-1
using LocalRank = Id<struct LocalRankTag, int>;  // position among the workers of this host
using VirtualWorker = Id<struct VirtualWorkerTag, int>;  // 0..V-1, fixed for the run
using Slot = Id<struct SlotTag, std::uint32_t>;          // place in shared memory; reused
// One incarnation of a worker; never reused, from 1.
using WorkerUid = Id<struct WorkerUidTag, std::uint64_t>;
using Generation = Id<struct GenerationTag, std::uint64_t>;  // number of the current membership
// Number of a transaction: optimizer steps and epoch ends, in order, from 0
// (docs/design/protocol.md).
using Txn = Id<struct TxnTag, std::uint64_t>;

}  // namespace lockstep
