#include "train/participant.h"

#include <algorithm>
#include <chrono>

#include "base/hash.h"
#include "coord/deadlines.h"
#include "train/state_image.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;

constexpr auto kCloseDeadline = 24h;  // what a program does at its end (exports) is its own

}  // namespace

Participant::Participant(worker::Session& session, TrainState& state, Program& program,
                         const ParticipantOptions& options)
    : session_(session),
      state_(state),
      program_(program),
      options_(options),
      board_(session.memory(), options.board),
      start_buffers_(buffer_bytes(state)) {}

Result<std::unique_ptr<Participant>> Participant::create(worker::Session& session,
                                                         TrainState& state, Program& program,
                                                         const ParticipantOptions& options) {
  std::unique_ptr<Participant> self(new Participant(session, state, program, options));
  std::vector<ddp::Parameter> parameters;
  for (const TrainState::Named& p : state.parameters()) parameters.push_back({p.name, p.tensor});
  LOCKSTEP_ASSIGN(self->reducer_, ddp::Reducer::create(std::move(parameters), options.reducer));
  comm::ExchangePlan plan;
  plan.virtual_workers = options.board.virtual_workers;
  plan.buckets = self->reducer_->bucket_specs();
  plan.scale = 1.0F / static_cast<float>(options.board.virtual_workers);
  plan.buffer_bytes = buffer_bytes(state);
  plan.eval_items = options.eval_items;
  plan.state_bytes = image_bytes(state);
  plan.board_bytes = session.memory_bytes();
  const worker::Identity& me = session.identity();
  self->exchange_ = comm::make_shm_exchange(self->board_, me.slot, me.uid, plan);
  self->reducer_->attach(*self->exchange_);
  // A sign of life, however long the whole backward takes.
  coord::WorkerSlot& slot = self->self_slot();
  self->reducer_->on_gradients([&slot](bool) { coord::grow(slot.progress, 1); });
  const bool first_start = !me.newcomer && me.restart_count == 0;
  LOCKSTEP_ASSIGN(self->injector_,
                  worker::Injector::from_environment(self->board_, me.slot, first_start));
  return self;
}

void Participant::enter(coord::Phase phase, std::uint32_t share) {
  coord::WorkerSlot& slot = self_slot();
  const std::uint64_t now = monotonic_ns();
  const std::uint64_t since = slot.busy_since_ns.load(std::memory_order_relaxed);
  if (since != 0) coord::grow(slot.busy_ns, now - since);
  slot.busy_since_ns.store(coord::is_computing(phase) ? now : 0, std::memory_order_relaxed);
  slot.phase.store(static_cast<std::uint64_t>(phase), std::memory_order_relaxed);
  slot.item.store(share, std::memory_order_relaxed);
  coord::grow(slot.progress, 1);
  injector_.at(phase, next_, rank_, share);
}

Status Participant::wait_bell(const std::function<bool()>& done, const char* what,
                              std::chrono::minutes limit) {
  if (wait_until(self_slot().bell, done, Deadline::in(limit))) return {};
  return Error{ErrorKind::kTimedOut,
               "waited " + std::to_string(limit.count()) + " minutes for " + what};
}

Status Participant::join(Txn next) {
  next_ = next;
  LOCKSTEP_TRY(session_.ready(next, session_.launched() ? state_hash() : 0));
  if (session_.launched()) return {};
  LOCKSTEP_ASSIGN(
      recorder_,
      coord::Recorder::open(posix_env(), options_.run_dir, board_, next, [](std::string_view text) {
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::fflush(stdout);
      }));
  return {};
}

// Workers that begin together must begin alike.
std::uint64_t Participant::state_hash() const {
  Xxh3 hash;
  const std::uint64_t tensors = state_.xxh3();
  hash.update(std::as_bytes(std::span(&tensors, 1)));
  for (const TrainState::Text& text : state_.texts()) {
    hash.update(text.name);
    hash.update(text.save());
  }
  return hash.value();
}

Result<Participant::Turn> Participant::turn() {
  enter(coord::Phase::kIdle);
  const coord::TableCell& cell = board_.table(next_);
  bool passed = false;  // by those who stay: only one that leaves can be
  const auto told = [&] {
    passed = cell.mark.load(std::memory_order_acquire) > next_.value() + 1;
    return passed || coord::read_table(cell, next_, table_);
  };
  LOCKSTEP_TRY(wait_bell(told, "the table of members", kPeerDeadline));
  if (passed) return Turn::kLeft;
  const auto self =
      std::find_if(table_.members.begin(), table_.members.end(),
                   [&](const coord::Member& m) { return m.uid == session_.identity().uid; });
  if (self == table_.members.end()) return Turn::kLeft;
  rank_ = Rank(static_cast<int>(self - table_.members.begin()));
  if (next_ >= program_.end()) return Turn::kEnd;
  if ((table_.flags & coord::kStop) != 0) return Turn::kStopped;
  return Turn::kRun;
}

bool Participant::first_live() const {
  const coord::Ownership ownership(table_, 1, board_.dead());
  return ownership.live_count() > 0 &&
         table_.members[ownership.first_live()].uid == session_.identity().uid;
}

Status Participant::run() {
  const Txn txn = next_;
  coord::WorkerSlot& slot = self_slot();
  slot.current_txn.store(txn.value(), std::memory_order_relaxed);
  slot.epoch.store(static_cast<std::uint64_t>(program_.epoch(txn)), std::memory_order_relaxed);
  slot.epoch_step.store(static_cast<std::uint64_t>(program_.epoch_step(txn)),
                        std::memory_order_relaxed);
  done_ = 0;
  marked_ = 0;
  changed_ = false;
  whole_since_ns_ = 0;
  LOCKSTEP_TRY(begin_exchange());
  if (overtaken()) return skip();
  if (slot.seen_dead.load(std::memory_order_relaxed) !=
      board_.header().dead_count.load(std::memory_order_acquire))
    note_membership_change();
  LOCKSTEP_TRY(donate_if_asked());
  LOCKSTEP_TRY(program_.before(txn, exchange_->ownership().first_live() == exchange_->self()));
  if (!start_buffers_.empty()) store_buffers(state_, start_buffers_);
  LOCKSTEP_TRY(compute_owned());
  LOCKSTEP_TRY(wait_whole());
  return leaving() ? skip() : commit();
}

Status Participant::skip() {
  next_ = Txn(next_.value() + 1);
  return {};
}

// This worker is in no later table. Then nobody waits for it any more, and what it would read now
// the others may be writing for later transactions.
bool Participant::leaving() const {
  const Txn after(next_.value() + 1);
  const coord::TableCell& cell = board_.table(after);
  coord::Table table;
  return !coord::read_table(cell, after, table) || !table.has(session_.identity().uid);
}

// An epoch's end has passed without this worker, and it is in no later table. Then not even its
// state is good: nobody waited for it to read the last step's sums.
bool Participant::overtaken() {
  return !program_.is_step(next_) && items_marked() && table_published() && leaving();
}

Status Participant::begin_exchange() {
  LOCKSTEP_TRY(wait_for_record_room());
  LOCKSTEP_TRY(program_.is_step(next_)
                   ? exchange_->begin(table_)
                   : exchange_->begin_evaluation(table_, program_.items(next_)));
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
  return {};
}

Status Participant::compute_step_share(std::uint32_t item, bool adopted) {
  const std::uint64_t mark = next_.value() + 1;
  const VirtualWorker v(static_cast<int>(item));
  coord::ShareRecord& record = board_.record(next_, v);
  if (!start_buffers_.empty()) load_buffers(state_, start_buffers_);
  reducer_->begin_share(fold_for(item, adopted));
  // A record that the dead had marked stays; what is computed again for its pieces goes to a
  // scratch one.
  const bool recorded = record.mark.load(std::memory_order_acquire) >= mark;
  std::vector<std::byte> scratch(
      recorded ? sizeof(coord::ShareRecord) + std::size_t{board_.plan().ids_capacity} * 8 : 0);
  LOCKSTEP_TRY(program_.compute_share(
      next_, v, recorded ? *new (scratch.data()) coord::ShareRecord : record));
  LOCKSTEP_TRY(reducer_->end_share());
  if (item == 0 && !start_buffers_.empty() && !exchange_->buffers_published()) {
    store_buffers(state_, exchange_->buffers());
    exchange_->publish_buffers();
  }
  if (!recorded) record.mark.store(mark, std::memory_order_release);
  return {};
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
  const Deadline deadline = Deadline::in(kPeerDeadline);
  bool joiner_missing = false;
  const auto rest_is_whole = [&] {
    if (!items_marked()) return false;
    if (table_published()) return true;
    if (exchange_->ownership().first_live() != exchange_->self()) return false;
    joiner_missing = !settle_joiners();
    return true;
  };
  for (;;) {
    joiner_missing = false;
    LOCKSTEP_ASSIGN(const comm::Wait outcome, exchange_->wait(rest_is_whole, deadline));
    if (outcome == comm::Wait::kWhole) {
      if (!joiner_missing) return {};
      // Nobody else is waited for: look again when it rings, and soon in any case.
      Doorbell& bell = self_slot().bell;
      wait(bell, bell.rings.load(std::memory_order_acquire), Deadline::in(500us));
      continue;
    }
    note_membership_change();
    if (exchange_->self() < table_.members.size()) LOCKSTEP_TRY(compute_owned());
    enter(coord::Phase::kExchange);
  }
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

Status Participant::commit() {
  enter(coord::Phase::kOptimizer);
  const bool step = program_.is_step(next_);
  if (step) {
    LOCKSTEP_TRY(program_.check(next_, board_));
    reducer_->set_gradients();
    program_.update(next_, board_);
    reducer_->clear_gradients();
    if (!start_buffers_.empty()) load_buffers(state_, exchange_->buffers());
  } else {
    program_.end_epoch(next_, *exchange_);
  }
  const Lines lines = program_.lines(next_, board_, *exchange_);
  enter(coord::Phase::kIdle);
  LOCKSTEP_TRY(write_lines(lines));
  const Txn committed = next_;
  next_ = Txn(committed.value() + 1);
  self_slot().applied.store(next_.value(), std::memory_order_release);
  note_commit();
  if (session_.launched()) return {};
  if (!lines.console.empty() || next_.value() % (board_.plan().ring / 2) == 0 ||
      next_ >= program_.end())
    return recorder_->pump();
  return {};
}

Status Participant::wait_for_record_room() {
  const auto room = [&] {
    return board_.header().recorded_txn.load(std::memory_order_acquire) + board_.plan().ring >
           next_.value();
  };
  if (room()) return {};
  if (!session_.launched()) return recorder_->pump();
  return wait_bell(room, "the launcher to record committed steps", kPeerDeadline);
}

Status Participant::write_lines(const Lines& lines) {
  coord::CommitLines& out = board_.lines(session_.identity().slot, next_);
  if (lines.console.size() + lines.metrics.size() > coord::kCommitTextBytes)
    return Error{ErrorKind::kUsage,
                 "the lines of one step or epoch's end (step_lines, epoch_lines, exports) take " +
                     std::to_string(lines.console.size() + lines.metrics.size()) +
                     " bytes, limit " + std::to_string(coord::kCommitTextBytes)};
  out.console_bytes = static_cast<std::uint32_t>(lines.console.size());
  out.metrics_bytes = static_cast<std::uint32_t>(lines.metrics.size());
  out.is_step = program_.is_step(next_) ? 1 : 0;
  out.epoch = static_cast<std::uint32_t>(program_.epoch(next_));
  out.step = static_cast<std::uint64_t>(program_.global_step(next_));
  std::copy(lines.metrics.begin(), lines.metrics.end(),
            std::copy(lines.console.begin(), lines.console.end(), out.text));
  out.mark.store(next_.value() + 1, std::memory_order_release);
  return {};
}

Status Participant::record_all() {
  if (recorder_ == nullptr) return {};
  LOCKSTEP_TRY(recorder_->pump());
  return recorder_->sync();
}

Status Participant::close(const std::function<Status()>& last_words) {
  enter(coord::Phase::kDone);
  bool spoken = false;
  const auto recorded = [&] {
    return board_.header().final_recorded.load(std::memory_order_acquire) != 0;
  };
  if (!session_.launched()) {
    LOCKSTEP_TRY(record_all());
    return last_words();
  }
  while (!recorded()) {
    if (!spoken && first_live()) {
      LOCKSTEP_TRY(last_words());
      spoken = true;
    }
    LOCKSTEP_TRY(wait_bell([&] { return recorded() || (!spoken && first_live()); },
                           "the launcher to record the end", kCloseDeadline));
  }
  return {};
}

}  // namespace lockstep::train
