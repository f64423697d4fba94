// What a dead member has left of a share, and what its heir makes of the same one: both have to be
// the same, and to compare them costs next to nothing. It finds what a closure keeps where its
// worker is, and what a newcomer had given to sums before it could be compared: a sum of pieces
// that the dead had supplied stays.
#include <string>

#include "transaction/causes.h"
#include "transaction/participant.h"
#include "transaction/rows.h"
#include "transaction/state_image.h"

namespace lockstep::transaction {

bool Participant::recorded(std::uint32_t item) const {
  const VirtualWorker v(static_cast<int>(item));
  return board_.record(next_, v).mark.load(std::memory_order_acquire) >= next_.value() + 1;
}

// `before`: the rank of who had the share before, if anybody has left anything of it.
Status Participant::check_inherited(std::uint32_t item, const ShareOutput& here,
                                    std::uint64_t before) {
  if (!program_.promised()) return {};
  std::vector<coord::Word> rows_there(state_.carried_rows().size()), rows_here(rows_there.size());
  std::vector<coord::Word> buffers_there(state_.buffers().size()),
      buffers_here(buffers_there.size());
  hash_row(state_, exchange_->row(item), rows_there);
  hash_row(state_, here.rows, rows_here);
  hash_buffers(state_, buffers_here);
  const ComputedShare own{in_own_rank() + ", which took it over",
                          here.notes.training(),
                          {},
                          loss_of(here.record),
                          {},
                          here.notes.sums().read(),
                          here.record.ends != 0,
                          rows_here,
                          buffers_here};
  ComputedShare there = recorded(item) ? computed_first(item) : own;
  there.where = in_rank(before) + ", which has died since,";
  there.gradients = {};
  there.rows = rows_there;
  // Virtual worker 0's may be there though its record is not.
  if (item == 0 && !start_buffers_.empty() && exchange_->buffers_published()) {
    hash_buffers(state_, exchange_->buffers(), buffers_there);
    there.buffers = buffers_there;
  }
  auto differs = first_difference(there, own, item, names_of_words());
  const auto gradient = reducer_->other_gradient();
  if (!differs && gradient)
    differs = Difference{Difference::In::kGradient, false,
                         "the gradient of " + names_of_words().parameter(*gradient) +
                             " of virtual worker " + std::to_string(item) + " has other bits " +
                             there.where + " than " + own.where};
  if (overrun()) return {};
  // Of one that was proved: as good as to be compared with the living.
  if (!differs && recorded(item) && !unproved(item) && here.record.loss_count > 0 &&
      notes(item).hashed_mark().load(std::memory_order_relaxed) == next_.value() + 1)
    program_.proved(next_);
  if (!differs) return {};
  const bool far = before < table_.members.size() && coord::stay_of(table_.members[before].uid) !=
                                                         coord::stay_of(session_.identity().uid);
  const Circumstances in{far ? Again::kOtherHost : Again::kOtherWorker,
                         program_.global_step(next_) == 0, options_.hooks};
  return Error{ErrorKind::kUsage,
               program_.in_words(next_) + ": " + differs->text + causes_of(*differs, in)};
}

}  // namespace lockstep::transaction
