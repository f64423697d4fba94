#include "transaction/participant.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "comm/engine.h"
#include "coord/hang_watch.h"
#include "transaction/rows.h"
#include "transaction/state_image.h"

namespace lockstep::transaction {
namespace {

// As backward gives gradients to them, each with the optimizers that update it: the modules', and
// tensors of the program's own.
std::vector<ddp::Parameter> summed_parameters(const TrainState& state) {
  std::unordered_map<const at::TensorImpl*, std::uint64_t> optimizers;
  for (std::size_t i = 0; i < state.optimizers().size(); ++i)
    for (const at::Tensor& parameter : state.optimizers()[i]->parameters())
      optimizers[parameter.unsafeGetTensorImpl()] |= std::uint64_t{1} << i;
  std::vector<ddp::Parameter> parameters;
  for (std::size_t i = 0; i < state.leaves().size(); ++i)
    parameters.push_back({state.leaves()[i].name, state.leaves()[i].tensor,
                          optimizers[state.parameters()[i].tensor.unsafeGetTensorImpl()]});
  for (const TrainState::Named& own : state.own_parameters())
    parameters.push_back({own.name, own.tensor, optimizers[own.tensor.unsafeGetTensorImpl()]});
  return parameters;
}

}  // namespace

Participant::Participant(worker::Session& session, TrainState& state, Program& program,
                         const ParticipantOptions& options)
    : session_(session),
      state_(state),
      program_(program),
      options_(options),
      board_(session.memory(), options.board),
      log_(session, board_),
      start_buffers_(buffer_bytes(state)),
      spare_row_(row_bytes(state)),
      written_(state) {}

Result<std::unique_ptr<Participant>> Participant::create(worker::Session& session,
                                                         TrainState& state, Program& program,
                                                         const ParticipantOptions& options) {
  std::unique_ptr<Participant> self(new Participant(session, state, program, options));
  LOCKSTEP_ASSIGN(self->reducer_, ddp::Reducer::create(summed_parameters(state), options.reducer));
  self->notes_plan_ = {
      state.part_count(),     self->reducer_->parameters().size(), state.carried_rows().size(),
      state.buffers().size(), self->reducer_->frozen_words(),      options.training_words};
  comm::ExchangePlan plan;
  plan.virtual_workers = options.board.virtual_workers;
  plan.buckets = self->reducer_->bucket_specs();
  plan.scale = 1.0F / static_cast<float>(options.board.virtual_workers);
  plan.buffer_bytes = buffer_bytes(state);
  plan.row_bytes = self->spare_row_.size();
  plan.eval_items = options.eval_items;
  plan.note_words = self->notes_plan_.words();
  plan.state_bytes = image_bytes(state);
  const worker::Identity& me = session.identity();
  comm::Engine engine(self->board_, session.memory_bytes(), me.slot, me.uid);
  self->exchange_ = engine.make_exchange(std::move(plan));
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

Status Participant::join(Txn next, const coord::RunTime& time, bool complete) {
  next_ = next;
  written_.begin_anew();
  board_.header().first_parts.store(coord::word_of(parts(next)), std::memory_order_release);
  LOCKSTEP_TRY(session_.ready(next, session_.launched() ? state_hash() : 0, time, complete));
  return log_.open(options_.run_dir, next, options_.total_steps, time.limit);
}

coord::Parts Participant::parts(Txn txn) const {
  if (txn >= program_.end()) return {};
  return {program_.items(txn), program_.is_step(txn)};
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
  const std::vector<coord::Member> before = table_.members;
  await(self_slot().bell, told);
  if (passed) return Turn::kLeft;
  const auto is_new = [&](const coord::Member& m) {
    return std::ranges::find(before, m) == before.end();
  };
  // Empty: it has just begun.
  if (!before.empty() && before != table_.members) {
    newcomers_ = newcomers_ || std::ranges::any_of(table_.members, is_new);
    evaluations_ = 0;
  }
  const auto self =
      std::find_if(table_.members.begin(), table_.members.end(),
                   [&](const coord::Member& m) { return m.uid == session_.identity().uid; });
  if (self == table_.members.end()) return Turn::kLeft;
  rank_ = Rank(static_cast<int>(self - table_.members.begin()));
  LOCKSTEP_TRY(heed_stop());
  if (next_ >= program_.end()) return Turn::kEnd;
  if ((table_.flags & coord::kStop) != 0) return Turn::kStopped;
  return Turn::kRun;
}

// Nobody goes on towards a last step that is not recorded: if all died now, another one would be.
Status Participant::heed_stop() {
  const std::uint64_t stop = table_.stop_after_step;
  if (stop == 0) return {};
  program_.stop_after(stop);
  const coord::Word& recorded = board_.header().stop_recorded;
  const auto there = [&] { return recorded.load(std::memory_order_acquire) == stop; };
  if (there()) return {};
  if (!session_.launched()) return session_.record_stop(stop);
  await(self_slot().bell, there);
  return {};
}

bool Participant::first_live() const {
  const std::vector<WorkerUid> dead = board_.dead();
  for (const coord::Member& m : table_.members)
    if (!coord::is_dead(dead, m.uid)) return m.uid == session_.identity().uid;
  return false;
}

bool Participant::first_of_host() const {
  const WorkerUid self = session_.identity().uid;
  const std::vector<WorkerUid> dead = board_.dead();
  for (const coord::Member& m : table_.members)
    if (coord::stay_of(m.uid) == coord::stay_of(self) && !coord::is_dead(dead, m.uid))
      return m.uid == self;
  return false;
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
  if (!start_buffers_.empty()) store_buffers(state_, start_buffers_);
  written_.look(start_buffers_);
  LOCKSTEP_TRY(compute_owned());
  LOCKSTEP_TRY(rehearse(false));
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

// What members have noted of a step (ShareNotes) lies where that of four transactions later comes
// to lie. Whoever leaves may be as late as that: what it has read since then, and what differs in
// it, means nothing. One that stays is waited for in the steps between.
//
// Asked after what was read; then it holds for all of it.
bool Participant::overrun() const {
  std::atomic_thread_fence(std::memory_order_acquire);
  const Txn over(next_.value() + coord::kGenerations), before(over.value() - 1);
  // In any cell: its own may be being written for a later one, without a mark, and no other one is.
  const auto is_out = [&](const coord::TableCell& cell) {
    return cell.mark.load(std::memory_order_acquire) > over.value();
  };
  if (std::ranges::none_of(board_.header().table, is_out)) return false;
  coord::Table table;
  return !coord::read_table(board_.table(before), before, table) ||
         !table.has(session_.identity().uid);
}

Status Participant::close(const std::function<Status()>& last_words) {
  enter(coord::Phase::kDone);
  exchange_->ring_members();  // see check_nobody_ended()
  bool spoken = false;
  const auto recorded = [&] {
    return board_.header().final_recorded.load(std::memory_order_acquire) != 0;
  };
  if (!session_.launched()) {
    LOCKSTEP_TRY(log_.record_all());
    return last_words();
  }
  while (!recorded()) {
    if (!spoken && first_of_host()) {
      LOCKSTEP_TRY(last_words());
      spoken = true;
    }
    await(self_slot().bell, [&] { return recorded() || (!spoken && first_of_host()); });
  }
  return {};
}

}  // namespace lockstep::transaction
