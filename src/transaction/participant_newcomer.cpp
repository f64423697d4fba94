// A newcomer's first shares. What a loss depends on and the train state does not have (a replay
// buffer, an environment, a target network, a module's eval()) a newcomer has otherwise, or not at
// all. So it computes a share of the eldest member, too, and compares, before its own last share is
// marked: what it computes wrongly never gets into a sum.
//
// It waits for that share's record, and nobody in a ring of such waits: the eldest proves nothing.
#include <algorithm>

#include "transaction/participant.h"
#include "transaction/rows.h"
#include "transaction/share_comparison.h"

namespace lockstep::transaction {
namespace {

constexpr const char* kWhereItMustBe =
    ", which has just joined the run. What a share's loss depends on must be in the train state "
    "(state.add(), add_carried()), or be made anew by whoever joins, the same as the others have "
    "it: a replay buffer, an environment, a target network, a counter, an eval() of a module are "
    "not, if only workers that were there before have them (--rehearse 0 leaves this comparison "
    "out; then equal weights are not promised)";

using Words = std::span<const coord::Word>;

std::size_t first_different(Words a, Words b) {
  std::size_t i = 0;
  while (i < a.size() && a[i].load() == b[i].load()) ++i;
  return i;
}

bool same_words(Words a, Words b) { return first_different(a, b) == a.size(); }

std::vector<coord::Word> hashes_of(const TrainState& state, std::span<const std::byte> rows) {
  std::vector<coord::Word> hashes(state.carried_rows().size());
  hash_row(state, rows, hashes);
  return hashes;
}

}  // namespace

// Another one each time: it may take no part. nullopt: nobody is older.
std::optional<std::uint32_t> Participant::share_of_the_eldest() const {
  const coord::Ownership& ownership = exchange_->ownership();
  const std::uint32_t eldest = ownership.first_live();
  if (eldest >= exchange_->self()) return std::nullopt;
  const std::vector<std::uint32_t>& items = ownership.items_of(eldest);
  return items[proofs_tried_ % items.size()];
}

bool Participant::recorded(std::uint32_t item) const {
  const VirtualWorker v(static_cast<int>(item));
  return board_.record(next_, v).mark.load(std::memory_order_acquire) >= next_.value() + 1;
}

// False: its owner has died before.
bool Participant::wait_for_record(std::uint32_t item) {
  const WorkerUid owner = table_.members[exchange_->ownership().owner(item)].uid;
  enter(coord::Phase::kExchange);
  await(self_slot().bell, [&] {
    if (recorded(item)) return true;
    const std::vector<WorkerUid> dead = board_.dead();
    return std::ranges::find(dead, owner) != dead.end();
  });
  return recorded(item);
}

// Where the eldest dies meanwhile, the next step will do.
Status Participant::prove() {
  if (proof_tried_ || !program_.must_prove(next_)) return {};
  proof_tried_ = true;
  const std::optional<std::uint32_t> item = share_of_the_eldest();
  if (!item) return {};
  ++proofs_tried_;
  ScratchOutput scratch(board_.plan(), notes_plan_);
  LOCKSTEP_TRY(compute_again(*item, scratch));
  if (!wait_for_record(*item)) return {};
  if (!asked_alike(*item, scratch.output())) return {};
  LOCKSTEP_TRY(check_proof(*item, scratch.output()));
  if (scratch.output().record.loss_count > 0) program_.proved(next_);
  return {};
}

// Otherwise the step's own checks will tell, in all workers.
bool Participant::asked_alike(std::uint32_t item, const ShareOutput& here) const {
  const coord::ShareRecord& record = board_.record(next_, VirtualWorker(static_cast<int>(item)));
  return record.optimizers == here.record.optimizers && record.rates == here.record.rates &&
         same_words(notes(item).frozen(), here.notes.frozen());
}

Status Participant::check_proof(std::uint32_t item, const ShareOutput& here) const {
  const coord::ShareRecord& record = board_.record(next_, VirtualWorker(static_cast<int>(item)));
  const ShareNotes notes = this->notes(item);
  const std::string step = program_.in_words(next_) + ": ", v = std::to_string(item),
                    there = " in rank " + std::to_string(notes.rank().load()) + " and ",
                    us = " in rank " + std::to_string(rank_.value()) + kWhereItMustBe;
  if (record.state != here.record.state)
    return Error{ErrorKind::kUsage,
                 step + "the state of rank " + std::to_string(rank_.value()) +
                     ", which has just joined the run, differs from that of rank " +
                     std::to_string(notes.rank().load()) + " in " +
                     state_.tensor_in_words(first_different(notes.state(), here.notes.state())) +
                     ": what the loop writes to the train state between next() and run() is a "
                     "function of the step and of that state alone. What else it depends on (an "
                     "environment, a counter) must be in the state, too, as a newcomer has nothing "
                     "else"};
  const ShareLoss loss = loss_of(record), loss_here = loss_of(here.record);
  if (!same_loss(loss, loss_here))
    return Error{ErrorKind::kUsage, step + "the loss of virtual worker " + v + " is " +
                                        loss_text(loss) + there + loss_text(loss_here) + us};
  const Sums sums = notes.sums().read(), sums_here = here.notes.sums().read();
  if (const std::string other = first_difference(sums, sums_here); !other.empty())
    return Error{ErrorKind::kUsage, step + "what virtual worker " + v + " adds up as '" + other +
                                        "' is " + sum_text(sums, other) + there +
                                        sum_text(sums_here, other) + us};
  const std::vector<coord::Word> rows = hashes_of(state_, exchange_->row(item)),
                                 rows_here = hashes_of(state_, here.rows);
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].load() != rows_here[i].load())
      return Error{ErrorKind::kUsage, step + "what virtual worker " + v + " carries as '" +
                                          state_.carried_rows()[i].name + "' has other bits" +
                                          there + "others" + us};
  return {};
}

}  // namespace lockstep::transaction
