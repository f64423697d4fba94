// Places in shared memory. A dead worker's slot holds marks and sums that survivors may still read,
// so it is given out again only when the interrupted transaction is committed by all live members.
// Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "coord/table.h"

namespace lockstep::coord {

class SlotPool {
 public:
  // The lowest free slot; none: nullopt.
  std::optional<Slot> take();
  // Nobody else has ever looked into it.
  void give_back(Slot slot) { places_[slot.value()] = {}; }
  // Its owner was in a proposal: free once the transactions that may list it are over.
  void retire(Slot slot) { places_[slot.value()] = {Use::kRetired, std::nullopt}; }

  // From the board, after the last proposal without the dead was written. `last_listed`: the last
  // transaction whose table may list the dead. `applied`: transactions that all live members'
  // states include.
  void observe(std::uint64_t last_listed, std::uint64_t applied);

 private:
  enum class Use { kFree, kTaken, kRetired };
  struct Place {
    Use use = Use::kFree;
    std::optional<std::uint64_t> last_txn;  // the last transaction whose table may list the dead
  };
  std::array<Place, kMaxSlots> places_{};
};

}  // namespace lockstep::coord
