#include "simulation/sim_worker.h"

#include <algorithm>

#include "coord/deadlines.h"

namespace lockstep::simulation {

using coord::Phase;
namespace event = coord::event;

SimWorker::SimWorker(Host& host, std::shared_ptr<SimBoard> board, const coord::action::Spawn& spawn)
    : host_(host), board_(std::move(board)), spawn_(spawn) {
  // It claims its slot: what the last owner left there is gone. Nobody alive may still need that.
  for (const SimSlot& slot : board_->slots) {
    if (slot.needs == 0) continue;
    for (const SimSlot::Chunk& chunk : self().chunks)
      require(chunk.mark < slot.needs, "slot " + std::to_string(spawn_.slot.value()) +
                                           " reused while worker " + std::to_string(slot.uid) +
                                           " still needs the sums of transaction " +
                                           std::to_string(chunk.mark - 1));
  }
  self() = {};
  self().uid = spawn_.uid.value();
  self().progress.uid = spawn_.uid;
  later(host_.random.between(100 * kMicrosecond, 2 * kMillisecond), &SimWorker::describe);
}

void SimWorker::later(std::uint64_t delay, void (SimWorker::*what)()) {
  host_.clock.after(delay, [this, what] { run(what); });
}

void SimWorker::run(void (SimWorker::*what)()) {
  if (dead_ || hung_) return;
  if (stopped_)
    held_.push_back(what);
  else
    (this->*what)();
}

void SimWorker::go_on() {
  stopped_ = false;
  while (!held_.empty() && !stopped_ && !dead_) {
    const auto what = held_.front();
    held_.pop_front();
    (this->*what)();
  }
}

void SimWorker::ring() {
  if (ring_pending_ || dead_) return;
  ring_pending_ = true;
  later(host_.random.between(5 * kMicrosecond, 200 * kMicrosecond), &SimWorker::look);
}

void SimWorker::look() {
  ring_pending_ = false;
  if (state_ == State::kWaitTable)
    wait_table();
  else if (state_ == State::kWaitWhole)
    exchange();
  else if (state_ == State::kHealWait || state_ == State::kJoining)
    heal_wait();
  else if (state_ == State::kEnding)
    leave();
}

std::string SimWorker::picture() const {
  static constexpr const char* kNames[] = {"boots",
                                           "waits for a table",
                                           "busy",
                                           "waits for the whole",
                                           "waits for a copy",
                                           "loads a copy",
                                           "joins",
                                           "ends"};
  const coord::WorkerProgress& seen = board_->slots[spawn_.slot.value()].progress;
  return "worker " + std::to_string(uid().value()) + ": " + kNames[static_cast<int>(state_)] +
         " in " + std::to_string(txn_) + ", phase " + coord::to_string(seen.phase) + ", applied " +
         std::to_string(seen.applied) + ", shares done " + std::to_string(done_) +
         (stopped_ ? ", stopped" : "") + (hung_ ? ", hung" : "");
}

void SimWorker::end(coord::ExitStatus status) {
  if (dead_) return;
  dead_ = true;
  self().needs = 0;
  std::erase_if(host_.computing, [&](const auto& entry) { return entry.second == uid().value(); });
  host_.exited(uid(), status);
}

void SimWorker::phase(Phase phase) {
  self().progress.phase = phase;
  ++self().progress.progress;
}

void SimWorker::write_check(const char* what) const {
  require(!dead_ && !board_->is_dead(spawn_.uid),
          std::string("a worker on the dead list writes: ") + what);
}

void SimWorker::describe() {
  host_.to_agent(uid(), event::Hello{uid()});
  host_.to_agent(uid(), event::Described{uid(), host_.plan.virtual_workers, true, std::nullopt});
}

void SimWorker::admit(bool newcomer) {
  spawn_.newcomer = newcomer;
  later(host_.random.between(kMillisecond, 5 * kMillisecond), &SimWorker::loaded);
}

void SimWorker::loaded() {
  if (spawn_.newcomer) {
    state_ = State::kHealWait;
    host_.to_agent(uid(), event::Ready{uid(), Txn(0), 0});
    return heal_wait();
  }
  txn_ = host_.checkpoint.txn;
  value_ = host_.checkpoint.txn == 0 ? host_.reference[0] : host_.checkpoint.state;
  self().needs = txn_ + 1;
  host_.to_agent(uid(), event::Ready{uid(), Txn(txn_), value_});
  state_ = State::kWaitTable;
  wait_table();
}

std::uint32_t SimWorker::index_in(const coord::Table& table) const {
  const auto found =
      std::find_if(table.members.begin(), table.members.end(),
                   [&](const coord::Member& member) { return member.uid == spawn_.uid; });
  return static_cast<std::uint32_t>(found - table.members.begin());
}

const coord::Ownership& SimWorker::ownership() {
  if (!ownership_ || ownership_dead_ != board_->dead.size()) {
    ownership_.emplace(table_, host_.plan.virtual_workers, board_->dead);
    ownership_dead_ = board_->dead.size();
  }
  return *ownership_;
}

bool SimWorker::first_live() {
  return ownership().live_count() > 0 && table_.members[ownership().first_live()].uid == spawn_.uid;
}

void SimWorker::wait_table() {
  const coord::Table* table = board_->table(txn_);
  if (table == nullptr) return;
  table_ = *table;
  ownership_.reset();
  if (index_in(table_) == table_.members.size() || (table_.flags & coord::kStop) != 0 ||
      txn_ == host_.plan.transactions) {
    state_ = State::kEnding;
    return leave();
  }
  begin();
}

// Leaves: not in the table, asked to stop, or at the run's end.
void SimWorker::leave() {
  const bool at_end = txn_ == host_.plan.transactions && index_in(table_) < table_.members.size();
  if (!at_end) {
    if (!spoken_) host_.to_agent(uid(), event::Left{uid(), Txn(txn_)});
    spoken_ = true;
    return end({0, 0});
  }
  phase(Phase::kDone);
  require(value_ == host_.reference[txn_], "the final state differs from the undisturbed run's");
  if (board_->final_recorded) return end({0, 0});
  ownership_.reset();
  if (spoken_ || !first_live()) return;
  spoken_ = true;
  host_.to_agent(uid(), event::Finished{uid()});
}

void SimWorker::begin() {
  state_ = State::kBusy;
  self().progress.current_txn = Txn(txn_);
  done_ = 0;
  patience_until_ = 0;
  phase(Phase::kData);
  const bool asked = board_->heal_request != handled_request_ && board_->heal_donor == uid();
  if (asked) {
    handled_request_ = board_->heal_request;
    write_check("a copy for newcomers");
    board_->heal_mark = 0;
    phase(Phase::kHeal);
    return later(host_.random.between(200 * kMicrosecond, 4 * kMillisecond), &SimWorker::donated);
  }
  if (first_live() && txn_ % host_.plan.checkpoint_every == 0 && txn_ > 0) {
    phase(Phase::kSnapshot);
    return later(host_.random.between(kMillisecond, 3 * kMillisecond), &SimWorker::saved);
  }
  compute();
}

void SimWorker::donated() {
  write_check("a copy for newcomers");
  board_->heal_state = value_;
  board_->heal_mark = txn_ + 1;
  host_.ring_all();
  compute();
}

void SimWorker::saved() {
  write_check("a checkpoint");
  require(value_ == host_.reference[txn_],
          "a checkpoint holds another state than the undisturbed run's");
  if (txn_ > host_.checkpoint.txn) host_.checkpoint = {txn_, value_};
  compute();
}

void SimWorker::compute() {
  const std::uint32_t me = index_in(table_);
  if (me == table_.members.size()) return exchange();  // a newcomer's first transaction
  const auto& items = ownership().items_of(me);
  while (done_ < items.size() && board_->pieces[items[done_]].mark == txn_ + 1 &&
         board_->pieces[items[done_]].owner == uid())
    ++done_;
  if (done_ == items.size()) {
    host_.ring_all();
    return exchange();
  }
  const auto [it, fresh] = host_.computing.emplace(std::pair(txn_, items[done_]), uid().value());
  require(fresh || it->second == uid().value(),
          "share " + std::to_string(items[done_]) + " has two live owners");
  phase(host_.random.chance(0.5) ? Phase::kForward : Phase::kBackward);
  if (hang_wanted_) {
    hung_ = true;
    return;
  }
  later(host_.random.between(host_.step_time / 2, host_.step_time * 3 / 2), &SimWorker::computed);
}

void SimWorker::computed() {
  const std::uint32_t item = ownership().items_of(index_in(table_))[done_];
  write_check("a share");
  host_.computing.erase({txn_, item});
  board_->pieces[item] = {txn_ + 1, host_.plan.share(value_, txn_, item), uid()};
  board_->recorded[item] = txn_ + 1;
  ++done_;
  compute();
}

// Sums those chunks that are this member's, once every share has a live owner's piece.
void SimWorker::sum_chunks() {
  const std::uint32_t me = index_in(table_);
  std::uint64_t sum = 0;
  for (std::uint32_t v = 0; v < host_.plan.virtual_workers; ++v) {
    const SimBoard::Piece& piece = board_->pieces[v];
    if (piece.mark != txn_ + 1 || board_->is_dead(piece.owner)) return;
    sum = mix(sum, piece.value);
  }
  for (std::uint32_t c = 0; c < kChunks; ++c) {
    if (ownership().chunk_owner(c, kChunks, 0) != me) continue;
    const auto marked = [&](const coord::Member& m) {
      return board_->slots[m.slot.value()].chunks[c].mark == txn_ + 1;
    };
    if (std::any_of(table_.members.begin(), table_.members.end(), marked)) continue;
    write_check("a sum");
    self().chunks[c] = {txn_ + 1, Plan::chunk(sum, c)};
    host_.ring_all();
  }
}

bool SimWorker::whole() {
  for (std::uint32_t c = 0; c < kChunks; ++c) {
    bool marked = false;
    for (const coord::Member& member : table_.members)
      marked = marked || board_->slots[member.slot.value()].chunks[c].mark == txn_ + 1;
    if (!marked) return false;
  }
  return recorded();
}

bool SimWorker::recorded() const {
  // A ring: older records stay readable.
  return std::all_of(board_->recorded.begin(), board_->recorded.end(),
                     [&](std::uint64_t mark) { return mark > txn_; });
}

// True: the table of the next transaction is out. Joiners are waited for a little once all else is
// there.
bool SimWorker::publish_table(bool when_whole) {
  if (board_->table(txn_ + 1) != nullptr) return true;
  if (!first_live()) return false;
  coord::Table next;
  next.txn = Txn(txn_ + 1);
  next.flags = board_->proposal.flags;
  next.generation = board_->proposal.generation;
  bool joiners = false, loading = false;
  for (const coord::Member& wanted : board_->proposal.members) {
    if (board_->is_dead(wanted.uid)) continue;
    const bool member =
        std::find(table_.members.begin(), table_.members.end(), wanted) != table_.members.end();
    const auto& progress = board_->slots[wanted.slot.value()].progress;
    joiners = joiners || !member;
    if (member || progress.ready_txn == txn_ + 1) next.members.push_back(wanted);
    loading =
        loading || (!member && progress.loading_txn == txn_ + 1 && progress.ready_txn != txn_ + 1);
  }
  if (joiners && !when_whole) return false;
  if (loading && patience_until_ == 0) patience_until_ = host_.clock.now() + 15 * kMillisecond;
  if (loading && host_.clock.now() < patience_until_) {
    later(kMillisecond, &SimWorker::look);
    return false;
  }
  if (next.members.empty()) next.members = table_.members;  // all were asked to leave at once
  write_check("a table");
  check_members(next.members);
  board_->tables[next.txn.value() % 2] = next;
  host_.ring_all();
  return true;
}

void SimWorker::exchange() {
  const bool member = index_in(table_) < table_.members.size();
  if (member && !whole()) {
    // A death may have left us new shares; whole is looked at first, so that nothing done is done
    // again.
    const auto& items = ownership().items_of(index_in(table_));
    if (done_ < items.size()) {
      state_ = State::kBusy;
      return compute();
    }
  }
  phase(Phase::kExchange);
  state_ = State::kWaitWhole;
  if (member) {
    publish_table(recorded());  // perhaps before the sums are whole
    sum_chunks();
  }
  if (!whole()) return;
  if (member ? !publish_table(true) : board_->table(txn_ + 1) == nullptr) return;
  state_ = State::kBusy;
  phase(Phase::kOptimizer);
  later(host_.random.between(50 * kMicrosecond, 500 * kMicrosecond), &SimWorker::committed);
}

void SimWorker::committed() {
  std::array<std::uint64_t, kChunks> chunks{};
  for (std::uint32_t c = 0; c < kChunks; ++c) {
    bool found = false;
    for (const coord::Member& member : table_.members) {
      const SimSlot::Chunk& chunk = board_->slots[member.slot.value()].chunks[c];
      if (chunk.mark != txn_ + 1) continue;
      require(!found || chunks[c] == chunk.value, "two sums of one chunk differ");
      chunks[c] = chunk.value;
      found = true;
    }
    require(found, "a marked chunk of transaction " + std::to_string(txn_) +
                       " is gone before all have applied it");
  }
  value_ = Plan::apply(value_, chunks);
  ++txn_;
  require(value_ == host_.reference[txn_],
          "the state after transaction " + std::to_string(txn_ - 1) + " differs");
  require(self().progress.applied <= txn_, "a committed transaction went back");
  self().progress.applied = txn_;
  self().needs = txn_ + 1;
  self().progress.committed_ns = host_.clock.now();
  host_.last_commit_at = host_.clock.now();
  ++host_.commits;
  phase(Phase::kIdle);
  state_ = State::kWaitTable;
  wait_table();
}

// A newcomer: waits for a copy, loads it, says ready, and sees in the next table whether it was in
// time.
void SimWorker::heal_wait() {
  if (state_ == State::kJoining) {
    const coord::Table* after = board_->table(txn_ + 1);
    // A newer copy is no reason to turn away: others count on us.
    if (after == nullptr && !board_->overtaken(txn_ + 1)) return;
    if (after != nullptr && index_in(*after) < after->members.size()) {
      self().needs = txn_ + 1;
      return exchange();
    }
    state_ = State::kHealWait;
  }
  const std::uint64_t mark = board_->heal_mark;
  if (mark == 0 || mark == tried_) return;
  tried_ = mark;
  const coord::Table* table = board_->table(mark - 1);
  if (table == nullptr) return;
  table_ = *table;
  ownership_.reset();
  txn_ = mark - 1;
  value_ = board_->heal_state;
  self().progress.loading_txn = mark;
  state_ = State::kHealLoad;
  phase(Phase::kHeal);
  later(host_.random.between(200 * kMicrosecond, 6 * kMillisecond), &SimWorker::heal_loaded);
}

void SimWorker::heal_loaded() {
  state_ = State::kHealWait;
  if (board_->heal_mark == tried_) {
    self().progress.ready_txn = tried_;
    patience_until_ = 0;
    state_ = State::kJoining;
    host_.ring_all();
  }
  heal_wait();
}

}  // namespace lockstep::simulation
