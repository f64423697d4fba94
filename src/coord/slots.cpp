#include "coord/slots.h"

namespace lockstep::coord {

std::optional<Slot> SlotPool::take() {
  for (std::uint32_t i = 0; i < kMaxSlots; ++i) {
    if (places_[i].use != Use::kFree) continue;
    places_[i].use = Use::kTaken;
    return Slot(i);
  }
  return std::nullopt;
}

void SlotPool::observe(std::uint64_t last_listed, std::uint64_t applied) {
  for (Place& place : places_) {
    if (place.use != Use::kRetired) continue;
    if (!place.last_txn) place.last_txn = last_listed;
    if (applied > *place.last_txn) place = {};
  }
}

}  // namespace lockstep::coord
