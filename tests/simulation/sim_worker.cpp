#include "simulation/sim_worker.h"

#include <algorithm>
#include <utility>

#include "coord/hang_watch.h"

namespace lockstep::simulation {

using coord::Phase;
namespace event = coord::event;

SimWorker::SimWorker(Host& host, std::shared_ptr<SimBoard> board, const coord::action::Spawn& spawn)
    : host_(host), board_(std::move(board)), spawn_(spawn) {
  // It claims its slot: what the last owner left there is gone. Nobody alive may still need that.
  for (const SimSlot& slot : board_->slots) {
    if (slot.needs == 0) continue;
    for (const Cell& piece : self().pieces)
      require(piece.mark < slot.needs, "slot " + std::to_string(spawn_.slot.value()) +
                                           " reused while worker " + std::to_string(slot.uid) +
                                           " still needs the pieces of transaction " +
                                           std::to_string(piece.mark - 1));
  }
  self() = {};
  self().uid = spawn_.uid.value();
  self().progress.uid = spawn_.uid;
  self().pieces.resize(host_.plan.virtual_workers);
  later(host_.random.between(100 * kMicrosecond, 2 * kMillisecond), &SimWorker::describe);
}

void SimWorker::later(std::uint64_t delay, void (SimWorker::*what)()) {
  // The machine may have others to serve.
  if (host_.random.chance(host_.preempted)) delay += host_.random.between(0, host_.most_preempted);
  host_.clock.after(delay, [this, what] { run(what); });
}

void SimWorker::run(void (SimWorker::*what)()) {
  if (dead_ || hung_) return;
  if (stopped_)
    held_.push_back(what);
  else
    (this->*what)();
}

void SimWorker::stop() {
  if (!stopped_) stopped_at_ = host_.clock.now();
  stopped_ = true;
}

std::uint64_t SimWorker::stood_still() const {
  return (stopped_ ? stopped_at_ : host_.clock.now()) - still_since_;
}

bool SimWorker::in_exchange() const {
  return alive() && !stopped_ &&
         board_->slots[spawn_.slot.value()].progress.phase == Phase::kExchange;
}

void SimWorker::go_on() {
  if (stopped_) still_since_ += host_.clock.now() - stopped_at_;
  stopped_ = false;
  if (const int number = std::exchange(pending_signal_, 0)) signal(number);
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
    finish();
  else if (state_ == State::kChecking)
    rung_ = true;
}

std::string SimWorker::picture() const {
  static constexpr const char* kNames[] = {"boots",
                                           "waits for a table",
                                           "busy",
                                           "waits for the whole",
                                           "looks for deaths",
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
  const auto copy = board_->heal_writers.find(uid());
  if (copy != board_->heal_writers.end()) copy->second.ended = true;
  std::erase_if(host_.computing, [&](const auto& entry) { return entry.second == uid().value(); });
  host_.exited(uid(), status);
}

void SimWorker::signal(int number) {
  if (stopped_) {
    pending_signal_ = number;
  } else if (!dead_ && self().progress.signal == 0) {
    self().progress.signal = number;
  }
}

void SimWorker::hang_up() {
  if (dead_ || hung_) return;
  hung_ = true;
  std::erase_if(host_.computing, [&](const auto& entry) { return entry.second == uid().value(); });
  host_.to_agent(uid(), event::Closed{uid()});
}

void SimWorker::phase(Phase phase) {
  still_since_ = host_.clock.now();
  self().progress.phase = phase;
  ++self().progress.progress;
}

void SimWorker::write_check(const char* what) const {
  require(!dead_ && !board_->is_dead(spawn_.uid),
          std::string("a worker on the dead list writes: ") + what);
  require(value_ == (begun_ ? begun(reference(txn_)) : reference(txn_)) &&
              rows_ == host_.reference.rows[place(txn_)],
          std::string("not made from the undisturbed run's state: ") + what);
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
  const bool begins = host_.checkpoint.txn == 0;
  value_ = begins ? host_.reference.states[0] : host_.checkpoint.state;
  rows_ = begins ? host_.reference.rows[0] : host_.checkpoint.rows;
  memory_ = host_.checkpoint.memory;
  self().needs = txn_ + 1;
  host_.to_agent(uid(),
                 event::Ready{uid(), Txn(txn_), value_, {0, host_.time_limit, host_.stop_file}});
  state_ = State::kWaitTable;
  wait_table();
}

// What comes behind the last step evaluates it, and changes nothing.
std::uint64_t SimWorker::place(std::uint64_t txn) const {
  const std::uint64_t stop = table_.stop_after_step;
  return stop != 0 ? std::min(txn, stop) : txn;
}

std::uint32_t SimWorker::index_in(const coord::Table& table) const {
  const auto found =
      std::find_if(table.members.begin(), table.members.end(),
                   [&](const coord::Member& member) { return member.uid == spawn_.uid; });
  return static_cast<std::uint32_t>(found - table.members.begin());
}

void SimWorker::share_out() {
  ownership_.emplace(table_, host_.plan.items(txn_, table_.stop_after_step), coord::stay_of(uid()),
                     board_->dead);
  ownership_dead_ = board_->dead.size();
}

bool SimWorker::first_live() const {
  const auto first = ownership_->first_live();
  return first && table_.members[*first].uid == spawn_.uid;
}

void SimWorker::begin() {
  const std::uint64_t end = host_.plan.program_end(table_.stop_after_step);
  require(end == 0 || txn_ < end, "the run goes on behind the end that a share has asked for");
  state_ = State::kBusy;
  if (idle_hang_wanted_) {
    hung_ = true;
    return;
  }
  share_out();
  if (overtaken()) return skip();
  if (first_live() && txn_ % host_.plan.checkpoint_every == 0 && txn_ > 0 && is_border(txn_)) {
    phase(Phase::kSnapshot);
    return later(host_.random.between(kMillisecond, 3 * kMillisecond), &SimWorker::saved);
  }
  own_code();
}

void SimWorker::saved() {
  write_check("a checkpoint");
  require(host_.plan.is_border(txn_, table_.stop_after_step), "a checkpoint within a step");
  // Behind the last step the place is that step's end.
  const std::uint64_t stop = table_.stop_after_step,
                      place = stop != 0 ? std::min(txn_, stop) : txn_;
  const std::uint64_t value = host_.planted.own_code_before ? begun(value_) : value_;
  if (place > host_.checkpoint.txn) host_.checkpoint = {place, value, memory_, rows_};
  own_code();
}

// An evaluation that has passed without this worker, whose state may be spoilt: see apply().
bool SimWorker::overtaken() const {
  return !is_step(txn_) && whole() && table_published() && leaving();
}

// The loop's.
void SimWorker::own_code() {
  if (host_.own_code_txn != txn_ || ran_own_code_) return begin_after_own_code();
  ran_own_code_ = true;
  later(host_.own_code + host_.random.between(0, host_.own_code_more),
        &SimWorker::begin_after_own_code);
}

void SimWorker::begin_after_own_code() {
  value_ = begun(value_);
  begun_ = true;
  self().progress.current_txn = Txn(txn_);
  self().progress.items = host_.plan.items(txn_, table_.stop_after_step);
  done_ = 0;
  patience_until_ = 0;
  share_out();
  dead_at_begin_ = ownership_dead_;
  if (overtaken()) return skip();
  phase(Phase::kData);
  if (board_->heal_request != handled_request_ && board_->heal_donor == uid() &&
      is_border(txn_ + 1))
    return donate();
  compute();
}

// In no later table.
void SimWorker::skip() {
  ++txn_;
  begun_ = false;
  phase(Phase::kIdle);
  state_ = State::kWaitTable;
  wait_table();
}

void SimWorker::compute() {
  const auto& items = ownership_->items_of(index_in(table_));
  const bool step = is_step(txn_);
  // The dead may have finished a batch. A share is computed again, for its piece.
  while (!step && done_ < items.size() && board_->batches(txn_)[items[done_]].mark > txn_) ++done_;
  if (done_ == items.size()) {
    if (first_live() && !table_published() && wanted_joiners().empty()) publish_table({});
    host_.ring_all();
    return exchange();
  }
  const auto [it, fresh] = host_.computing.emplace(std::pair(txn_, items[done_]), uid().value());
  require(fresh || it->second == uid().value(),
          "share " + std::to_string(items[done_]) + " has two live owners");
  phase(!step ? Phase::kEvaluate : host_.random.chance(0.5) ? Phase::kForward : Phase::kBackward);
  if (hang_wanted_) {
    hung_ = true;
    return;
  }
  later(host_.random.between(host_.step_time / 2, host_.step_time * 3 / 2) +
            std::exchange(slowed_, 0),
        &SimWorker::computed);
}

void SimWorker::computed() {
  const std::uint32_t item = ownership_->items_of(index_in(table_))[done_];
  write_check("a share or batch");
  require(host_.stop_file == 0 || !is_step(txn_) || txn_ < host_.stop_file,
          "a step behind the recorded stop");
  host_.computing.erase({txn_, item});
  is_step(txn_) ? deliver_share(item) : deliver_batch(item);
  ++done_;
  compute();
}

// Looks at marks first, and a moment later at the dead.
void SimWorker::exchange() {
  state_ = State::kBusy;
  rung_ = false;
  phase(Phase::kExchange);
  const bool member = index_in(table_) < table_.members.size();
  if (member && is_step(txn_)) {
    leave_out_chunks();
    sum_chunks();
  }
  if (!whole() || (!table_published() && !(first_live() && settle_joiners()))) {
    state_ = State::kChecking;
    return later(host_.random.between(kMicrosecond, 20 * kMicrosecond), &SimWorker::check_dead);
  }
  if (member && leaving()) return skip();
  phase(Phase::kOptimizer);
  later(host_.random.between(50 * kMicrosecond, 500 * kMicrosecond), &SimWorker::committed);
}

void SimWorker::check_dead() {
  if (board_->dead.size() == ownership_dead_) {
    state_ = State::kWaitWhole;
    return rung_ ? exchange() : void();
  }
  share_out();
  state_ = State::kBusy;
  index_in(table_) < table_.members.size() ? compute() : exchange();
}

void SimWorker::committed() {
  const bool overtaken = !apply();
  ++txn_;
  begun_ = false;
  if (ends_ && is_border(txn_)) end_ = txn_;
  require(overtaken || value_ == reference(txn_),
          "the state after transaction " + std::to_string(txn_ - 1) + " differs");
  require(overtaken || rows_ == host_.reference.rows[place(txn_)],
          "what is carried from transaction " + std::to_string(txn_ - 1) + " differs");
  require(overtaken || memory_ == host_.reference.memories[place(txn_)],
          "what the step of transaction " + std::to_string(txn_ - 1) + " has taught differs");
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

}  // namespace lockstep::simulation
