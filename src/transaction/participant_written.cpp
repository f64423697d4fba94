// What one worker's loop or hook has written to buffers and rows, and another one's has not, or
// otherwise: before the update, as it is gone behind it (written_state.h). Who has written notes a
// hash with its shares; each member compares all that are noted with what it has itself.
#include <string>

#include "transaction/causes.h"
#include "transaction/participant.h"

namespace lockstep::transaction {

// The one that finds it tells, and the run ends with that. Of another host's shares: somebody
// there. A newcomer that comes in has a copy of another member's.
Status Participant::check_written() {
  if (next_ < came_in_) return {};
  const coord::Ownership& ownership = exchange_->ownership();
  for (std::uint32_t v = 0; v < program_.items(next_); ++v) {
    if (!ownership.is_here(ownership.owner(v))) continue;
    const ShareNotes notes = this->notes(v);
    const std::vector<std::size_t> others = written_.others(notes, next_);
    if (others.empty()) continue;
    const std::string there = in_rank(notes.rank().load(std::memory_order_relaxed));
    const std::string here = in_own_rank();
    return Error{
        ErrorKind::kUsage,
        program_.in_words(next_) + ": " + written_.in_words(others.front()) + " has other bits " +
            there + ", which has written to it since the update before, than " + here +
            (written_.was_written(others.front()) ? ", which has so, too" : ", which has not") +
            causes_of_states(options_.hooks)};
  }
  return {};
}

}  // namespace lockstep::transaction
