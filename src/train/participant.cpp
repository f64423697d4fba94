#include "train/participant.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;

// The launcher evicts whoever hangs; these only end waits that nobody else will.
constexpr auto kPeerDeadline = 30min;  // PyTorch's default for collectives
// How long members wait for a newcomer that is about to be ready (design: survivors stall at most 20 ms).
constexpr std::uint64_t kJoinPatience_ns = 15'000'000;

bool computing(coord::Phase phase) {
  return phase == coord::Phase::kData || phase == coord::Phase::kForward ||
         phase == coord::Phase::kBackward || phase == coord::Phase::kOptimizer ||
         phase == coord::Phase::kEvaluate;
}

bool contains(const std::vector<coord::Member>& members, WorkerUid uid) {
  return std::any_of(members.begin(), members.end(),
                     [&](const coord::Member& m) { return m.uid == uid; });
}

}  // namespace

Participant::Participant(worker::Session& session, TrainState& state, Program& program,
                         const ParticipantOptions& options)
    : session_(session),
      state_(state),
      program_(program),
      options_(options),
      board_(session.memory(), options.board),
      start_buffers_(state.buffer_bytes()) {}

Result<std::unique_ptr<Participant>> Participant::create(worker::Session& session,
                                                         TrainState& state, Program& program,
                                                         const ParticipantOptions& options) {
  std::unique_ptr<Participant> self(new Participant(session, state, program, options));
  std::vector<ddp::NamedTensor> parameters;
  for (const TrainState::Named& p : state.parameters()) parameters.push_back({p.name, p.tensor});
  LOCKSTEP_ASSIGN(self->reducer_, ddp::Reducer::create(std::move(parameters), options.reducer));
  comm::ExchangePlan plan;
  plan.virtual_workers = options.board.virtual_workers;
  plan.buckets = self->reducer_->bucket_specs();
  plan.scale = 1.0F / static_cast<float>(options.board.virtual_workers);
  plan.buffer_bytes = state.buffer_bytes();
  plan.eval_items = options.eval_items;
  plan.state_bytes = state.bytes();
  const worker::Identity& me = session.identity();
  self->exchange_ = comm::make_shm_exchange(self->board_, me.slot, me.uid, plan);
  self->reducer_->attach(*self->exchange_);
  const bool first_start = !me.newcomer && me.restart_count == 0;
  LOCKSTEP_ASSIGN(self->injector_,
                  worker::Injector::from_environment(self->board_, me.slot, first_start));
  return self;
}

void Participant::enter(coord::Phase phase, std::uint32_t share) {
  coord::WorkerSlot& slot = self_slot();
  const std::uint64_t now = monotonic_ns();
  const std::uint64_t since = slot.busy_since_ns.load(std::memory_order_relaxed);
  if (since != 0)
    slot.busy_ns.store(slot.busy_ns.load(std::memory_order_relaxed) + now - since,
                       std::memory_order_relaxed);
  slot.busy_since_ns.store(computing(phase) ? now : 0, std::memory_order_relaxed);
  slot.phase.store(static_cast<std::uint64_t>(phase), std::memory_order_relaxed);
  slot.progress.store(slot.progress.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  injector_.at(phase, next_, rank_, share);
}

Status Participant::wait_bell(const std::function<bool()>& done, const char* what) {
  const Deadline deadline = Deadline::in(kPeerDeadline);
  Doorbell& bell = self_slot().bell;
  for (;;) {
    const std::uint32_t seen = bell.rings.load(std::memory_order_acquire);
    if (done()) return {};
    if (deadline.passed())
      return Error{ErrorKind::kTimedOut, std::string("waited 30 minutes for ") + what};
    wait(bell, seen, deadline);
  }
}

Status Participant::join(Txn next) {
  next_ = next;
  LOCKSTEP_TRY(session_.ready(next, 0));
  if (session_.launched()) return {};
  sole_member_publishes(next);
  LOCKSTEP_ASSIGN(
      recorder_,
      coord::Recorder::open(posix_env(), options_.run_dir, board_, next, [](std::string_view text) {
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::fflush(stdout);
      }));
  return {};
}

// Alone there is no agent: the only member is its own coordinator.
void Participant::sole_member_publishes(Txn txn) {
  const worker::Identity& me = session_.identity();
  const coord::Table table{txn, Generation(1), coord::kNone, {{me.uid, me.slot}}};
  self_slot().uid.store(me.uid.value());
  coord::write_table(board_.header().table_of(txn), table);
  coord::write_proposal(board_.header().proposal, table);
}

Result<Participant::Turn> Participant::turn() {
  enter(coord::Phase::kIdle);
  const coord::TableCell& cell = board_.header().table_of(next_);
  LOCKSTEP_TRY(wait_bell([&] { return coord::read_table(cell, next_, table_); },
                         "the first table of members"));
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
  done_ = 0;
  marked_ = 0;
  changed_ = false;
  whole_since_ns_ = 0;
  LOCKSTEP_TRY(begin_exchange());
  if (slot.seen_dead.load(std::memory_order_relaxed) !=
      board_.header().dead_count.load(std::memory_order_acquire))
    note_membership_change();
  donate_if_asked();
  LOCKSTEP_TRY(program_.before(txn, first_live(), (table_.flags & coord::kCheckpoint) != 0));
  if (!start_buffers_.empty()) state_.store_buffers(start_buffers_);
  LOCKSTEP_TRY(compute_owned());
  LOCKSTEP_TRY(wait_whole());
  return commit();
}

Status Participant::begin_exchange() {
  LOCKSTEP_TRY(program_.is_step(next_)
                   ? exchange_->begin(table_)
                   : exchange_->begin_evaluation(table_, program_.items(next_)));
  if (!prefaulted_) exchange_->prefault(false);
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
  if (cell.mark.load(std::memory_order_acquire) == mark) return {};  // the dead had finished it
  enter(coord::Phase::kEvaluate, item);
  LOCKSTEP_TRY(program_.compute_batch(next_, item, cell));
  cell.mark.store(mark, std::memory_order_release);
  return {};
}

Status Participant::compute_step_share(std::uint32_t item, bool adopted) {
  const std::uint64_t mark = next_.value() + 1;
  const VirtualWorker v(static_cast<int>(item));
  coord::ShareRecord& record = board_.record(next_, v);
  if (!start_buffers_.empty()) state_.load_buffers(start_buffers_);
  reducer_->begin_share(fold_for(item, adopted));
  // A record that the dead had marked stays; what is computed again for its pieces goes to a scratch one.
  const bool recorded = record.mark.load(std::memory_order_acquire) == mark;
  std::vector<std::byte> scratch(
      recorded ? sizeof(coord::ShareRecord) + std::size_t{board_.plan().ids_capacity} * 8 : 0);
  LOCKSTEP_TRY(program_.compute_share(
      next_, v, recorded ? *new (scratch.data()) coord::ShareRecord : record));
  LOCKSTEP_TRY(reducer_->end_share());
  if (item == 0 && !start_buffers_.empty() && !exchange_->buffers_published()) {
    state_.store_buffers(exchange_->buffers());
    exchange_->publish_buffers();
  }
  if (!recorded) record.mark.store(mark, std::memory_order_release);
  return {};
}

ddp::FoldStep Participant::fold_for(std::uint32_t item, bool adopted) const {
  const std::uint32_t V = board_.plan().virtual_workers;
  if (adopted) return ddp::fold_step(item, {0, item}, V);
  const coord::Ownership& ownership = exchange_->ownership();
  const std::uint32_t self = exchange_->self();
  for (const coord::Node node :
       coord::cover(ownership.items_of(self).front(), ownership.block_size(self), V))
    if (item >= node.first_leaf() && item - node.first_leaf() < (std::uint64_t{1} << node.level))
      return ddp::fold_step(item, node, V);
  return ddp::fold_step(item, {0, item}, V);
}

bool Participant::items_marked() {
  const std::uint64_t mark = next_.value() + 1;
  const bool step = program_.is_step(next_);
  const std::uint32_t items = program_.items(next_);
  while (marked_ < items) {
    const coord::Word& word =
        step ? board_.record(next_, VirtualWorker(static_cast<int>(marked_))).mark
             : exchange_->eval(marked_).mark;
    if (word.load(std::memory_order_acquire) != mark) return false;
    ++marked_;
  }
  return !step || start_buffers_.empty() || exchange_->buffers_published();
}

bool Participant::table_published() {
  return board_.header().table_of(Txn(next_.value() + 1)).mark.load(std::memory_order_acquire) ==
         next_.value() + 2;
}

std::vector<coord::Member> Participant::wanted_joiners(const coord::Table& wish) const {
  const std::vector<WorkerUid> dead = board_.dead();
  std::vector<coord::Member> joiners;
  for (const coord::Member& m : wish.members)
    if (!contains(table_.members, m.uid) &&
        std::find(dead.begin(), dead.end(), m.uid) == dead.end())
      joiners.push_back(m);
  return joiners;
}

// The next table: the proposal's members that live, and of the joiners those given.
void Participant::publish_table(std::vector<coord::Member> joiners) {
  coord::Table table = coord::read_proposal(board_.header().proposal);
  const std::vector<WorkerUid> dead = board_.dead();
  std::erase_if(table.members, [&](const coord::Member& m) {
    if (std::find(dead.begin(), dead.end(), m.uid) != dead.end()) return true;
    return !contains(table_.members, m.uid) && !contains(joiners, m.uid);
  });
  // Nobody of today's in tomorrow's table (all were asked to leave at once): go on as we are.
  if (table.members.empty()) table.members = table_.members;
  table.txn = Txn(next_.value() + 1);
  coord::write_table(board_.header().table_of(table.txn), table);
  exchange_->ring_members();
  for (const coord::Member& m : joiners) ring(board_.slot(m.slot).bell);
}

// Called when all sums are whole.
Status Participant::wait_whole() {
  enter(coord::Phase::kExchange);
  const Deadline deadline = Deadline::in(kPeerDeadline);
  const auto rest_is_whole = [&] {
    if (!items_marked()) return false;
    if (table_published()) return true;
    const coord::Ownership& ownership = exchange_->ownership();
    if (ownership.first_live() != exchange_->self()) return false;
    const std::uint64_t mark = next_.value() + 1;
    std::vector<coord::Member> ready;
    bool loading = false;
    for (const coord::Member& m : wanted_joiners(coord::read_proposal(board_.header().proposal))) {
      if (board_.slot(m.slot).ready_txn.load(std::memory_order_acquire) == mark) {
        ready.push_back(m);
      } else if (board_.slot(m.slot).loading_txn.load(std::memory_order_acquire) == mark) {
        loading = true;
      }
    }
    const std::uint64_t now = monotonic_ns();
    if (whole_since_ns_ == 0) whole_since_ns_ = now;
    if (loading && now - whole_since_ns_ < kJoinPatience_ns) return false;
    coord::Word& stall = self_slot().join_stall_ns;
    stall.store(stall.load(std::memory_order_relaxed) + now - whole_since_ns_,
                std::memory_order_relaxed);
    publish_table(std::move(ready));
    return true;
  };
  for (;;) {
    // While only a joiner is missing, look again soon: its ring may come just before our wait.
    const Deadline soon = whole_since_ns_ != 0 ? Deadline::in(1ms) : deadline;
    Result<comm::Wait> outcome = exchange_->wait(rest_is_whole, soon);
    if (!outcome.ok()) {
      if (outcome.error().kind == ErrorKind::kTimedOut && !deadline.passed()) continue;
      return std::move(outcome).error();
    }
    if (*outcome == comm::Wait::kWhole) return {};
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
    reducer_->set_gradients(false);
    for (Optimizer* optimizer : state_.optimizers()) optimizer->step();
    reducer_->clear_gradients();
    if (!start_buffers_.empty()) state_.load_buffers(exchange_->buffers());
  }
  LOCKSTEP_ASSIGN(const Lines lines, program_.apply(next_, board_, *exchange_));
  enter(coord::Phase::kIdle);
  LOCKSTEP_TRY(wait_for_record_room());
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
  ring(board_.header().agent_bell);
  return wait_bell(room, "the launcher to record committed steps");
}

Status Participant::write_lines(const Lines& lines) {
  coord::CommitLines& out = board_.lines(session_.identity().slot, next_);
  if (lines.console.size() + lines.metrics.size() > coord::kCommitTextBytes)
    return Error{ErrorKind::kInternal,
                 "lines of one step take " +
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

void Participant::donate_if_asked() {
  const coord::Header& header = board_.header();
  const std::uint64_t request = header.heal_request.load(std::memory_order_acquire);
  if (request == handled_request_ ||
      header.heal_donor.load(std::memory_order_acquire) != session_.identity().uid.value())
    return;
  handled_request_ = request;
  const std::vector<coord::Member> joiners = wanted_joiners(coord::read_proposal(header.proposal));
  if (joiners.empty()) return;
  enter(coord::Phase::kHeal);
  const std::uint64_t begin = monotonic_ns();
  exchange_->heal_mark().store(0, std::memory_order_release);
  state_.store(exchange_->heal_region());
  exchange_->heal_mark().store(next_.value() + 1, std::memory_order_release);
  coord::Word& stall = self_slot().heal_stall_ns;
  stall.store(stall.load(std::memory_order_relaxed) + monotonic_ns() - begin,
              std::memory_order_relaxed);
  for (const coord::Member& m : joiners) ring(board_.slot(m.slot).bell);
}

Status Participant::heal() {
  exchange_->prefault(true);
  LOCKSTEP_TRY(session_.ready(Txn(0), 0));
  std::uint64_t tried = 0;
  for (;;) {
    const auto fresh = [&] {
      const std::uint64_t mark = exchange_->heal_mark().load(std::memory_order_acquire);
      return mark != 0 && mark != tried;
    };
    LOCKSTEP_TRY(wait_bell(fresh, "a live peer's state"));
    tried = exchange_->heal_mark().load(std::memory_order_acquire);
    if (tried == 0) continue;
    LOCKSTEP_ASSIGN(const bool joined, try_heal(tried));
    if (joined) return {};
  }
}

// One attempt with the copy of the start of transaction mark - 1. False: too late, wait for a newer copy.
Result<bool> Participant::try_heal(std::uint64_t mark) {
  const worker::Identity& me = session_.identity();
  coord::WorkerSlot& slot = self_slot();
  next_ = Txn(mark - 1);
  if (!coord::read_table(board_.header().table_of(next_), next_, table_)) return false;
  slot.loading_txn.store(mark, std::memory_order_release);
  enter(coord::Phase::kHeal);
  LOCKSTEP_TRY(state_.load(exchange_->heal_region()));
  if (exchange_->heal_mark().load(std::memory_order_acquire) != mark) return false;
  slot.ready_txn.store(mark, std::memory_order_release);
  LOCKSTEP_TRY(begin_exchange());
  exchange_->ring_members();
  coord::Table after;
  const coord::TableCell& cell = board_.header().table_of(Txn(next_.value() + 1));
  const auto told = [&] {
    // Decided, or so far ahead that the decision is overwritten.
    return cell.mark.load(std::memory_order_acquire) >= mark + 1 ||
           exchange_->heal_mark().load(std::memory_order_acquire) != mark;
  };
  LOCKSTEP_TRY(wait_bell(told, "the table that lists this newcomer"));
  if (!coord::read_table(cell, Txn(mark), after) || !contains(after.members, me.uid)) return false;
  // From here on the others wait for our first share, so this transaction's sums stay.
  done_ = 0;
  marked_ = 0;
  whole_since_ns_ = 0;
  if (!start_buffers_.empty()) state_.store_buffers(start_buffers_);
  LOCKSTEP_TRY(wait_whole());
  LOCKSTEP_TRY(commit());
  return true;
}

Status Participant::sync_own_records() {
  if (session_.launched()) return {};
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
    LOCKSTEP_TRY(sync_own_records());
    return last_words();
  }
  while (!recorded()) {
    if (!spoken && first_live()) {
      LOCKSTEP_TRY(last_words());
      spoken = true;
    }
    LOCKSTEP_TRY(wait_bell([&] { return recorded() || (!spoken && first_live()); },
                           "the launcher to record the end"));
  }
  return {};
}

}  // namespace lockstep::train
