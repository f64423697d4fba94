// One transaction: own items, the wait for the others' and for those of the dead, the commit.
#include <algorithm>
#include <chrono>
#include <utility>

#include "transaction/participant.h"
#include "transaction/rows.h"
#include "transaction/state_image.h"

namespace lockstep::transaction {

using namespace std::chrono_literals;

Status Participant::begin_exchange() {
  LOCKSTEP_TRY(log_.wait_for_room(next_));
  self_slot().items.store(program_.items(next_), std::memory_order_relaxed);
  twice_ = {program_.is_step(next_) ? program_.rehearsed(next_) : std::vector<bool>(), {}};
  compares_states_ = newcomers_ || std::ranges::count(twice_.here, true) > 0;
  const bool unproved =
      newcomers_ || program_.global_step(next_) <= hash_through_;  // somebody may be
  hashing_ = std::exchange(doubted_, false) || (unproved && program_.promised());
  LOCKSTEP_TRY(program_.is_step(next_)
                   ? exchange_->begin(table_)
                   : exchange_->begin_evaluation(table_, program_.items(next_)));
  look_again();
  // Whoever was there at the start may have to copy its state for a newcomer: faults would be the
  // survivors' stall.
  const worker::Identity& me = session_.identity();
  if (!prefaulted_) exchange_->prefault(session_.launched() && !me.newcomer);
  prefaulted_ = true;
  return {};
}

Status Participant::compute_owned() {
  const std::uint32_t self = exchange_->self();
  const coord::Ownership& ownership = exchange_->ownership();
  const std::vector<std::uint32_t>& own = ownership.items_of(self);
  while (done_ < own.size()) {
    const bool adopted = done_ >= ownership.block_size(self);
    if (adopted && self_slot().resumed_ns.load(std::memory_order_relaxed) == 0)
      self_slot().resumed_ns.store(monotonic_ns(), std::memory_order_relaxed);
    LOCKSTEP_TRY(compute_item(own[done_], adopted));
    ++done_;
  }
  // After the records: who finds a bucket left out finds one that says so, too.
  LOCKSTEP_TRY(evaluate_again());
  if (program_.is_step(next_))
    for (const std::uint32_t bucket : reducer_->left_out()) exchange_->leave_out(bucket);
  if (ownership.first_live() == self && !table_published() &&
      wanted_joiners(coord::read_proposal(board_.header().proposal)).empty())
    publish_table({});
  exchange_->ring_members();
  return {};
}

Status Participant::compute_item(std::uint32_t item, bool adopted) {
  const std::uint64_t mark = next_.value() + 1;
  if (program_.is_step(next_)) return compute_step_share(item, adopted);
  comm::EvalCell& cell = exchange_->eval(item);
  // The dead had finished it; a later mark: see leaving().
  if (cell.mark.load(std::memory_order_acquire) >= mark) return {};
  enter(coord::Phase::kEvaluate, item);
  LOCKSTEP_TRY(program_.compute_batch(next_, item, cell));
  if (!start_buffers_.empty()) load_buffers(state_, start_buffers_);  // whatever it did to them
  cell.mark.store(mark, std::memory_order_release);
  exchange_->ring_link();  // an evaluation is long: what is there of it others have, too
  return {};
}

Status Participant::compute_step_share(std::uint32_t item, bool adopted) {
  const std::uint64_t mark = next_.value() + 1;
  const VirtualWorker v(static_cast<int>(item));
  coord::ShareRecord& record = board_.record(next_, v);
  const ShareNotes notes = this->notes(item);
  // A record that the dead had marked stays, and its notes; what is computed again for its pieces
  // goes to scratch ones.
  const bool recorded = this->recorded(item);
  if (!start_buffers_.empty()) load_buffers(state_, start_buffers_);
  reducer_->begin_share(fold_for(item, adopted));
  const std::uint64_t before = notes.rank().load(std::memory_order_relaxed);
  const bool hashed = notes.hashing_mark().load(std::memory_order_acquire) == mark;
  const bool hashing =
      hashed || (!recorded && (hashing_ || twice_.here[item] || twice_.is_over_hosts(item)));
  if (hashing) reducer_->hash_gradients(notes.gradients(), hashed);
  if (!recorded) begin_notes(notes);
  if (hashing) notes.hashing_mark().store(mark, std::memory_order_release);
  // So does what it carries.
  const bool carried = exchange_->row_published(item);
  std::optional<ScratchOutput> scratch;
  if (recorded) scratch.emplace(board_.plan(), notes_plan_);
  ShareOutput output = recorded ? scratch->output() : ShareOutput{record, notes};
  output.rows = carried ? std::span(spare_row_) : exchange_->row(item);
  LOCKSTEP_TRY(program_.compute_share(next_, v, output));
  const Status ended = reducer_->end_share();
  if (adopted) LOCKSTEP_TRY(check_inherited(item, output, before));
  if (!ended.ok() && !overrun()) return ended;
  if (item == 0 && !start_buffers_.empty() && !exchange_->buffers_published()) {
    store_buffers(state_, exchange_->buffers());
    exchange_->publish_buffers();
  }
  if (!carried) exchange_->publish_row(item);
  if (recorded) return {};
  if (hashing) hash_row(state_, exchange_->row(item), notes.rows());
  if (hashing) hash_buffers(state_, notes.buffers());
  notes.hashed_mark().store(hashing ? mark : 0, std::memory_order_relaxed);
  record.mark.store(mark, std::memory_order_release);
  return {};
}

// Who has died over it may have been unproved: what that one has given to sums is compared with
// this worker's.
void Participant::begin_notes(const ShareNotes& notes) {
  const bool unproved = program_.must_prove(next_);
  notes.rank().store(static_cast<std::uint64_t>(rank_.value()), std::memory_order_relaxed);
  notes.came_in().store(came_in_.value(), std::memory_order_relaxed);
  notes.unproved_mark().store(unproved ? next_.value() + 1 : 0, std::memory_order_relaxed);
  written_.note(notes, next_);
}

ddp::FoldStep Participant::fold_for(std::uint32_t item, bool adopted) const {
  const std::uint32_t leaves = board_.plan().virtual_workers;
  if (adopted) return ddp::fold_step(item, {0, item}, leaves);
  const coord::Ownership& ownership = exchange_->ownership();
  const std::uint32_t self = exchange_->self();
  for (const coord::Node node :
       coord::cover(ownership.items_of(self).front(), ownership.block_size(self), leaves))
    if (item >= node.first_leaf() && item - node.first_leaf() < (std::uint64_t{1} << node.level))
      return ddp::fold_step(item, node, leaves);
  return ddp::fold_step(item, {0, item}, leaves);
}

bool Participant::items_marked() {
  const std::uint64_t mark = next_.value() + 1;
  const bool step = program_.is_step(next_);
  const std::uint32_t items = program_.items(next_);
  while (marked_ < items) {
    const coord::Word& word =
        step ? board_.record(next_, VirtualWorker(static_cast<int>(marked_))).mark
             : exchange_->eval(marked_).mark;
    // A later mark: the others have gone on without this worker, see leaving().
    if (word.load(std::memory_order_acquire) < mark) return false;
    if (step && !exchange_->row_published(marked_)) return false;
    ++marked_;
  }
  return !step || start_buffers_.empty() || exchange_->buffers_published();
}

bool Participant::table_published() {
  return board_.table(Txn(next_.value() + 1)).mark.load(std::memory_order_acquire) >=
         next_.value() + 2;
}

// Called when all own items are done.
Status Participant::wait_whole() {
  enter(coord::Phase::kExchange);
  bool joiner_missing = false, again = false;
  const auto rest_is_whole = [&] {
    if (!items_marked()) return false;
    // Others may have doubted it before, and done what there was to do.
    const bool ends = has_ends();
    const auto all_repeated = [&] { return repeats().all_done(); };
    if (!all_repeated() || ((has_doubts() || ends) && !all_repeated()))
      return again = repeats().any_is_mine();
    if (table_published()) return true;
    if (exchange_->ownership().first_live() != exchange_->self()) return false;
    joiner_missing = !settle_joiners();
    return true;
  };
  const auto sound = [&]() -> Status {
    LOCKSTEP_TRY(check_nobody_ended());
    if (!program_.is_step(next_)) return {};
    Status marked = program_.check_marked(next_, board_);
    return !marked.ok() && overrun() ? Status() : marked;
  };
  for (;;) {
    joiner_missing = false;
    LOCKSTEP_ASSIGN(const comm::Wait outcome,
                    exchange_->wait(rest_is_whole, sound, Deadline::never()));
    if (outcome == comm::Wait::kWhole && std::exchange(again, false)) {
      LOCKSTEP_TRY(rehearse(true));
      enter(coord::Phase::kExchange);
      continue;
    }
    if (outcome == comm::Wait::kWhole) {
      if (!joiner_missing) return {};
      // Nobody else is waited for: look again when it rings, and soon in any case.
      Doorbell& bell = self_slot().bell;
      wait(bell, bell.rings.load(std::memory_order_acquire), Deadline::in(500us));
      continue;
    }
    note_membership_change();
    if (exchange_->self() < table_.members.size()) {
      LOCKSTEP_TRY(compute_owned());
      LOCKSTEP_TRY(rehearse(false));
    }
    enter(coord::Phase::kExchange);
  }
}

// All members end the run behind the same transaction; else those that go on would wait for ever.
Status Participant::check_nobody_ended() const {
  const coord::Ownership& ownership = exchange_->ownership();
  for (std::uint32_t m = 0; m < table_.members.size(); ++m) {
    if (!ownership.is_here(m)) continue;
    const coord::WorkerSlot& slot = board_.slot(table_.members[m].slot);
    if (slot.uid.load(std::memory_order_relaxed) != table_.members[m].uid.value() ||
        slot.phase.load(std::memory_order_relaxed) !=
            static_cast<std::uint64_t>(coord::Phase::kDone) ||
        slot.applied.load(std::memory_order_acquire) > next_.value())
      continue;
    return Error{ErrorKind::kUsage,
                 program_.in_words(next_) + ": rank " + std::to_string(m) +
                     " has ended the run before it, and rank " + std::to_string(rank_.value()) +
                     " goes on. What ends it (UpdateEnd::end_run(), Trainer::stop_when()) depends "
                     "on more than the step and the train state: the best value so far, or how "
                     "often it has not improved, must be in the state (state.add()), as a worker "
                     "that joins later has nothing else"};
  }
  return {};
}

void Participant::note_membership_change() {
  coord::WorkerSlot& slot = self_slot();
  const std::uint64_t now = monotonic_ns();
  changed_ = true;
  slot.abort_seen_ns.store(now, std::memory_order_relaxed);
  slot.resumed_ns.store(0, std::memory_order_relaxed);
  slot.committed_ns.store(0, std::memory_order_relaxed);
  slot.seen_dead.store(board_.header().dead_count.load(std::memory_order_acquire),
                       std::memory_order_release);
  slot.regrouped_ns.store(monotonic_ns(), std::memory_order_relaxed);
}

void Participant::note_commit() {
  coord::WorkerSlot& slot = self_slot();
  if (changed_ || slot.committed_ns.load(std::memory_order_relaxed) == 0)
    slot.committed_ns.store(monotonic_ns(), std::memory_order_release);
}

// Of all virtual workers, whoever computed them.
void Participant::take_over_rows() {
  if (spare_row_.empty()) return;
  for (std::uint32_t v = 0; v < program_.items(next_); ++v) load_row(state_, v, exchange_->row(v));
}

// Optimizers, buffers and rows, what the program does then; and only now gradients are let go.
Status Participant::update() {
  // First: what an optimizer of the program's own writes to a buffer lasts.
  if (!start_buffers_.empty()) load_buffers(state_, exchange_->buffers());
  written_.begin_anew();
  if (program_.update(next_, board_)) {
    take_over_rows();
    LOCKSTEP_TRY(program_.updated(next_));
  } else if (!start_buffers_.empty()) {
    load_buffers(state_, start_buffers_);
  }
  reducer_->clear_gradients();
  return {};
}

Status Participant::check() {
  LOCKSTEP_TRY(check_proofs());
  LOCKSTEP_TRY(program_.check(next_, board_));  // before: losses of other states are other ones
  LOCKSTEP_TRY(check_written());
  LOCKSTEP_TRY(check_rehearsal());
  return reducer_->check_left_out();
}

Status Participant::commit() {
  enter(coord::Phase::kOptimizer);
  const bool step = program_.is_step(next_);
  if (step) {
    const Status sound = check();
    if (overrun()) return skip();  // it leaves, with an epoch's end that is whole: see overtaken()
    LOCKSTEP_TRY(sound);
    note_proofs();
    reducer_->set_gradients();
    LOCKSTEP_TRY(update());
    newcomers_ = false;
  } else {
    LOCKSTEP_TRY(check_evaluated_again());
    written_.settle();
    LOCKSTEP_TRY(program_.end_epoch(next_, *exchange_));
  }
  const Lines lines = program_.lines(next_, board_, *exchange_);
  enter(coord::Phase::kIdle);
  LOCKSTEP_TRY(log_.write(program_, next_, lines));
  const Txn committed = next_;
  next_ = Txn(committed.value() + 1);
  self_slot().applied.store(next_.value(), std::memory_order_release);
  note_commit();
  return log_.committed(program_, committed, lines);
}

}  // namespace lockstep::transaction
