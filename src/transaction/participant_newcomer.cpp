// A newcomer's shares. What a loss depends on and the train state does not have (a replay buffer,
// an environment, a target network, a module's eval()) a newcomer has otherwise, or not at all. So
// a share that it computes counts only once an older member has come to the same: until one of its
// shares has taken part, and has been compared, its records say that it is unproved, and the step
// is whole only when each such share has been computed again by a member whose records do not say
// so. There is no step in which nobody looks.
//
// Who is unproved all members know from the records alone, once all of them are marked: each that
// lives has marked one, of the first share of its block. Where all that are proved have died the
// eldest of the others is who newcomers are compared with, and a warning says so.
#include <algorithm>

#include "base/log.h"
#include "transaction/causes.h"
#include "transaction/participant.h"

namespace lockstep::transaction {

// Whether a newcomer has computed this share of a step that has not proved itself. Settled by its
// record's mark.
bool Participant::unproved(std::uint32_t item) const {
  return notes(item).unproved_mark().load(std::memory_order_relaxed) == next_.value() + 1;
}

// The eldest now, it is what others are compared with. To end the run would be to end it for right
// programs, too, which go on as if nothing had happened.
void Participant::tell_unvouched() {
  if (!program_.must_prove(next_) || !repeats().proved_members().empty()) return;
  log_once(program_.in_words(next_) + ": this worker joined the run with step " +
               std::to_string(program_.global_step(came_in_)) +
               ", and all that were there before it have died before one of its shares could be "
               "compared with theirs: nobody is left who knows whether it computes what they did. "
               "If the program keeps anything outside of the train state, stop it (lockstep stop), "
               "remove the checkpoints of this and later steps, and give the same command again",
           LogLevel::kWarning, "unvouched");
  program_.proved(next_);  // nothing is to come
}

// This member has computed it again. Other hosts have no more than this word of that.
Status Participant::tell_judged(std::uint32_t item) {
  if (table_.hosts.empty()) return {};
  const Status same = check_proof(item);
  if (overrun()) return {};  // what is compared may be of a later transaction by now
  LOCKSTEP_TRY(same);
  exchange_->judged_mark(item).store(next_.value() + 1, std::memory_order_release);
  return {};
}

// First of all that a step's members compare: where the newcomer's state or its closure is another
// one, this says why. Of a run on several hosts whoever has judged has done so.
Status Participant::check_proofs() const {
  for (std::uint32_t item = 0; table_.hosts.empty() && item < program_.items(next_); ++item)
    if (unproved(item)) LOCKSTEP_TRY(check_proof(item));
  return {};
}

// A share that this member of the table has computed.
std::optional<std::uint32_t> Participant::item_of(std::uint64_t rank) const {
  const coord::Ownership& ownership = exchange_->ownership();
  for (std::uint32_t v = 0; v < program_.items(next_); ++v)
    if (ownership.is_here(ownership.owner(v)) &&
        notes(v).rank().load(std::memory_order_relaxed) == rank)
      return v;
  return std::nullopt;
}

std::string Participant::which_came_in(std::uint32_t item) const {
  const std::int64_t first =
      program_.global_step(Txn(notes(item).came_in().load(std::memory_order_relaxed)));
  return first == program_.global_step(next_)
             ? ", which has just joined the run"
             : ", which joined the run with step " + std::to_string(first);
}

// Where two were given other optimizers or rates the step's own checks say so.
Status Participant::check_proof(std::uint32_t item) const {
  ComputedShare there = computed_again(item), own = computed_first(item);
  const std::uint64_t judge = notes(item).again_rank().load(std::memory_order_relaxed);
  if (const auto witness = item_of(judge)) {
    const auto record = [&](std::uint32_t v) -> const coord::ShareRecord& {
      return board_.record(next_, VirtualWorker(static_cast<int>(v)));
    };
    if (record(item).optimizers != record(*witness).optimizers ||
        record(item).rates != record(*witness).rates ||
        first_other(notes(item).frozen(), notes(*witness).frozen()))
      return {};
    if (record(item).state != record(*witness).state) {
      there.state = notes(*witness).state();
      own.state = notes(item).state();
    }
  }
  const bool newcomers = unproved(item);
  if (newcomers) own.where += which_came_in(item);
  const auto differs = first_difference(there, own, item, names_of_words());
  if (!differs) return {};
  const Again by = newcomers              ? Again::kNewcomer
                   : table_.hosts.empty() ? Again::kOtherWorker
                                          : Again::kOtherHost;
  const Circumstances in{by, program_.global_step(next_) == 0, options_.hooks};
  return Error{ErrorKind::kUsage,
               program_.in_words(next_) + ": " + differs->text + causes_of(*differs, in)};
}

// The step is whole, and what had to be the same is.
void Participant::note_proofs() {
  for (std::uint32_t item = 0; item < program_.items(next_); ++item) {
    if (!unproved(item)) continue;
    hash_through_ = program_.global_step(next_) + 1;
    if (computed(item) &&
        board_.record(next_, VirtualWorker(static_cast<int>(item))).loss_count > 0)
      program_.proved(next_);
  }
}

}  // namespace lockstep::transaction
