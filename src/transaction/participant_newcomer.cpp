// A newcomer's first shares. What a loss depends on and the train state does not have (a replay
// buffer, an environment, a target network, a module's eval()) a newcomer has otherwise, or not at
// all. So it computes a share of an older member, too, and compares, before its own last share is
// marked, and before it supplies sums of shares that the dead had marked: so what it computes
// wrongly gets into no sum that is used. Where no share of an older member takes part in the step,
// or none was marked before all of these died, there is nothing to compare with: what it computes
// counts, and the next step will do.
//
// It waits for the records of older members alone, so nobody waits in a ring.
#include <algorithm>

#include "transaction/participant.h"
#include "transaction/rows.h"
#include "transaction/share_comparison.h"

namespace lockstep::transaction {
namespace {

constexpr const char* kWhereItMustBe =
    ". What a share's loss depends on must be in the train state "
    "(state.add(), add_carried()), or be made anew by whoever joins, the same as the others have "
    "it: a replay buffer, an environment, a target network, a counter, an eval() of a module are "
    "not, if only workers that were there before have them (--rehearse 0 leaves this comparison "
    "out; then equal weights are not promised)";

using Words = std::span<const coord::Word>;

std::optional<std::size_t> first_other(Words a, Words b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].load(std::memory_order_relaxed) != b[i].load(std::memory_order_relaxed)) return i;
  return std::nullopt;
}

std::vector<coord::Word> hashes_of(const TrainState& state, std::span<const std::byte> rows) {
  std::vector<coord::Word> hashes(state.carried_rows().size());
  hash_row(state, rows, hashes);
  return hashes;
}

}  // namespace

// Whether this step, which is whole, had a share that newcomers can compare with: the newest is the
// last in the table. The same in all members.
bool Participant::may_prove() const {
  for (std::uint32_t item = 0; item < program_.items(next_); ++item) {
    const std::uint64_t rank = notes(item).rank().load(std::memory_order_relaxed);
    if (board_.record(next_, VirtualWorker(static_cast<int>(item))).loss_count > 0 &&
        (rank == 0 || rank + 1 < table_.members.size()))
      return true;
  }
  return false;
}

bool Participant::recorded(std::uint32_t item) const {
  const VirtualWorker v(static_cast<int>(item));
  return board_.record(next_, v).mark.load(std::memory_order_acquire) >= next_.value() + 1;
}

// A share of an older member, the eldest's first, that this worker has not looked at in this step:
// one that is recorded, also by one that has died, or that will be. nullopt: none is left.
std::optional<std::uint32_t> Participant::next_witness() const {
  const coord::Ownership& ownership = exchange_->ownership();
  const std::vector<WorkerUid> dead = board_.dead();
  for (std::uint32_t m = 0; m < table_.members.size(); ++m) {
    const bool comes = m < exchange_->self() && !coord::is_dead(dead, table_.members[m].uid);
    for (const std::uint32_t item : ownership.items_of(m))
      if (!witnesses_[item] &&
          (recorded(item) ? notes(item).rank().load(std::memory_order_relaxed) <
                                static_cast<std::uint64_t>(rank_.value())
                          : comes))
        return item;
  }
  return std::nullopt;
}

// False: its owner has died before.
bool Participant::wait_for_record(std::uint32_t item) {
  if (recorded(item)) return true;
  const WorkerUid owner = table_.members[exchange_->ownership().owner(item)].uid;
  enter(coord::Phase::kExchange);
  await(self_slot().bell, [&] { return recorded(item) || coord::is_dead(board_.dead(), owner); });
  return recorded(item);
}

// One share that takes no part, and then one that does.
Status Participant::prove() {
  bool compared = false;
  while (program_.must_prove(next_)) {
    const std::optional<std::uint32_t> item = next_witness();
    if (!item) break;
    if (!wait_for_record(*item)) continue;
    witnesses_[*item] = true;
    const coord::ShareRecord& record = board_.record(next_, VirtualWorker(static_cast<int>(*item)));
    if (record.loss_count > 0 || !std::exchange(compared, true)) LOCKSTEP_TRY(compare_with(*item));
  }
  return {};
}

Status Participant::compare_with(std::uint32_t item) {
  ScratchOutput scratch(board_.plan(), notes_plan_);
  LOCKSTEP_TRY(compute_again(item, scratch));
  const ShareOutput& here = scratch.output();
  if (!asked_alike(item, here)) return {};
  const Status proof = check_proof(item, here);
  if (overrun()) return {};
  LOCKSTEP_TRY(proof);
  if (here.record.loss_count > 0) program_.proved(next_);
  return {};
}

// Otherwise the step's own checks will tell, in all workers.
bool Participant::asked_alike(std::uint32_t item, const ShareOutput& here) const {
  const coord::ShareRecord& record = board_.record(next_, VirtualWorker(static_cast<int>(item)));
  return record.optimizers == here.record.optimizers && record.rates == here.record.rates &&
         !first_other(notes(item).frozen(), here.notes.frozen());
}

std::string Participant::which_came_in() const {
  const std::int64_t first = program_.global_step(came_in_);
  return first == program_.global_step(next_)
             ? ", which has just joined the run"
             : ", which joined the run with step " + std::to_string(first);
}

Status Participant::check_proof(std::uint32_t item, const ShareOutput& here) const {
  const coord::ShareRecord& record = board_.record(next_, VirtualWorker(static_cast<int>(item)));
  const ShareNotes notes = this->notes(item);
  const std::string rank = std::to_string(notes.rank().load()),
                    step = program_.in_words(next_) + ": ", v = std::to_string(item),
                    there = " in rank " + rank + " and ",
                    us = " in rank " + std::to_string(rank_.value()) + which_came_in() +
                         kWhereItMustBe;
  if (record.state != here.record.state) {
    const auto tensor = first_other(notes.state(), here.notes.state());
    return Error{ErrorKind::kUsage,
                 step + "the state of rank " + std::to_string(rank_.value()) + which_came_in() +
                     ", differs from that of rank " + rank + " in " +
                     (tensor ? state_.tensor_in_words(*tensor) : "some tensor") +
                     ": what the loop writes to the train state between next() and run() is a "
                     "function of the step and of that state alone. What else it depends on (an "
                     "environment, a counter) must be in the state, too, as a newcomer has nothing "
                     "else"};
  }
  const ShareLoss loss = loss_of(record), loss_here = loss_of(here.record);
  if (!same_loss(loss, loss_here))
    return Error{ErrorKind::kUsage, step + "the loss of virtual worker " + v + " is " +
                                        loss_text(loss) + there + loss_text(loss_here) + us};
  const Sums sums = notes.sums().read(), sums_here = here.notes.sums().read();
  if (const std::string other = first_difference(sums, sums_here); !other.empty())
    return Error{ErrorKind::kUsage, step + "what virtual worker " + v + " adds up as '" + other +
                                        "' is " + sum_text(sums, other) + there +
                                        sum_text(sums_here, other) + us};
  if (record.ends != here.record.ends)
    return Error{ErrorKind::kUsage, step + "the share of virtual worker " + v +
                                        (record.ends != 0 ? " ends the run" : " goes on") + there +
                                        (record.ends != 0 ? "goes on" : "ends the run") + us};
  return check_hashes(item, here);
}

Status Participant::check_hashes(std::uint32_t item, const ShareOutput& here) const {
  const ShareNotes notes = this->notes(item);
  const std::string step = program_.in_words(next_) + ": ",
                    than = " has other bits in rank " + std::to_string(notes.rank().load()) +
                           " than in rank " + std::to_string(rank_.value()) + which_came_in() +
                           kWhereItMustBe;
  const std::vector<coord::Word> rows = hashes_of(state_, exchange_->row(item)),
                                 rows_here = hashes_of(state_, here.rows);
  if (const auto row = first_other(rows, rows_here))
    return Error{ErrorKind::kUsage, step + "what virtual worker " + std::to_string(item) +
                                        " carries as '" + state_.carried_rows()[*row].name + "'" +
                                        than};
  if (notes.hashed_mark().load(std::memory_order_relaxed) != next_.value() + 1) return {};
  if (const auto gradient = first_other(notes.gradients(), here.notes.gradients()))
    return Error{ErrorKind::kUsage, step + "the gradient of '" +
                                        reducer_->parameters()[*gradient].name +
                                        "' of virtual worker " + std::to_string(item) +
                                        ", whose loss is the same," + than};
  return {};
}

}  // namespace lockstep::transaction
