// Who takes part next, who leaves, and how a newcomer gets the state, as
// src/transaction/participant_membership.cpp has it.
#include <algorithm>

#include "coord/next_table.h"
#include "simulation/sim_worker.h"

namespace lockstep::simulation {

using coord::Ownership;
using coord::Phase;
namespace event = coord::event;

void SimWorker::wait_table() {
  if (board_->table_mark(txn_) <= txn_) return;
  const coord::Table* table = board_->table(txn_);
  if (table == nullptr || !table->has(uid())) return depart();  // none: passed by those who stay
  table_ = *table;
  const std::uint64_t stop = table_.stop_after_step;
  if (stop != 0 && host_.stops_wait && board_->stop_recorded != stop) return;
  if (stop != 0 && txn_ >= stop) {
    require(host_.stop_in_effect == 0 || host_.stop_in_effect == stop,
            "the run stops behind transaction " + std::to_string(stop - 1) + " and behind " +
                std::to_string(host_.stop_in_effect - 1));
    host_.stop_in_effect = stop;
  }
  if (txn_ == end_of_run()) {
    const std::uint64_t program_end = host_.plan.program_end(stop);
    require(program_end == 0 || txn_ == std::min(program_end, host_.plan.end(stop)),
            "the run ends before a share has asked for it");
    host_.stopped += stop != 0 ? 1 : 0;
    state_ = State::kEnding;
    phase(Phase::kDone);
    write_check("the end");
    return finish();
  }
  if ((table_.flags & coord::kStop) != 0) return depart();
  begin();
}

std::uint64_t SimWorker::end_of_run() const {
  const std::uint64_t end = host_.plan.end(table_.stop_after_step);
  return end_ != 0 ? std::min(end, end_) : end;
}

// As Run::steps_if_last(): an epoch that is whole has its end as ever.
std::uint64_t SimWorker::stop_behind(std::uint64_t txn) const {
  std::uint64_t stop = txn + (host_.plan.is_step(txn) ? host_.plan.updates : 1);
  while (!host_.plan.is_step(stop)) ++stop;
  return stop < host_.plan.transactions ? stop : 0;
}

// Not in the table, or asked to stop.
void SimWorker::depart() {
  const coord::Table& newest = board_->history.rbegin()->second;
  require(!newest.has(uid()) || (newest.flags & coord::kStop) != 0,
          "a worker leaves in transaction " + std::to_string(txn_) + " although the table of " +
              std::to_string(newest.txn.value()) + " lists it");
  require(host_.plan.is_border(txn_, table_.stop_after_step), "a worker leaves within a step");
  // The step under way and its checkpoint.
  const bool stops = newest.has(uid()) && table_.txn.value() == txn_;
  if (stops &&
      Ownership(table_, 1, coord::stay_of(uid()), board_->dead).first_live() == index_in(table_))
    host_.checkpoint = {txn_, value_, memory_, rows_};
  host_.to_agent(uid(), event::Left{uid(), Txn(txn_)});
  end({0, 0});
}

// At the run's end.
void SimWorker::finish() {
  if (board_->final_recorded) return end({0, 0});
  share_out();
  if (spoken_ || !first_live()) return;
  spoken_ = true;
  host_.to_agent(uid(), event::Finished{uid()});
}

// It is in no later table: nobody waits for it any more.
bool SimWorker::leaving() const {
  const coord::Table* after = board_->table(txn_ + 1);
  return after == nullptr || !after->has(uid());
}

std::vector<coord::Member> SimWorker::wanted_joiners() const {
  if (!is_border(txn_ + 1)) return {};
  return coord::joiners(table_, board_->proposal, board_->dead);
}

// False: a newcomer has a copy to load, and there is patience left.
bool SimWorker::settle_joiners() {
  const bool copied = board_->heal_mark == txn_ + 1;
  std::vector<coord::Member> ready;
  bool loading = false;
  for (const coord::Member& joiner : wanted_joiners()) {
    const coord::WorkerProgress& seen = board_->slots[joiner.slot.value()].progress;
    if (seen.ready_txn == txn_ + 1)
      ready.push_back(joiner);
    else
      loading = copied;
  }
  if (loading && patience_until_ == 0)
    patience_until_ = host_.clock.now() + (15 * kMillisecond << doublings_);
  if (loading && host_.clock.now() < patience_until_) {
    later(kMillisecond, &SimWorker::look);
    return false;
  }
  if (copied) doublings_ = loading ? (doublings_ + 1) % 8 : 0;
  publish_table(ready);
  return true;
}

void SimWorker::publish_table(const std::vector<coord::Member>& joiners) {
  // Steps are counted in transactions here: the last is the one that the table is for.
  const coord::Table next = coord::next_table({.today = table_,
                                               .wish = board_->proposal,
                                               .dead = board_->dead,
                                               .ready = joiners,
                                               .begins_step = is_border(txn_ + 1),
                                               .last_step = stop_behind(txn_ + 1)});
  write_check("a table");
  board_->write_table(next, host_.plan.is_border(txn_ + 1, next.stop_after_step));
  host_.ring_all();
}

void SimWorker::donate() {
  handled_request_ = board_->heal_request;
  if (wanted_joiners().empty()) return compute();
  write_check("a copy for newcomers");
  board_->heal_mark = 0;
  std::erase_if(board_->heal_writers, [](const auto& writer) { return writer.second.ended; });
  board_->heal_writers[uid()] = {value_, false};
  phase(Phase::kHeal);
  if (idle_hang_wanted_) {
    hung_ = true;
    return;
  }
  later(host_.random.between(200 * kMicrosecond, 4 * kMillisecond), &SimWorker::donated);
}

void SimWorker::donated() {
  write_check("a copy for newcomers");
  board_->heal_writers.erase(uid());
  board_->heal_state = value_;
  board_->heal_memory = host_.planted.image_forgets ? 0 : memory_;
  board_->heal_ends = ends_ && !host_.planted.image_forgets_end;
  board_->heal_rows = rows_;
  board_->heal_mark = txn_ + 1;
  host_.ring_all();
  compute();
}

// A newcomer: waits for a copy, loads it, says ready, and sees in the next table whether it was in
// time.
void SimWorker::heal_wait() {
  if (state_ == State::kJoining) {
    // A newer copy is no reason to turn away: others count on us.
    if (!table_published()) return;
    const coord::Table* after = board_->table(txn_ + 1);
    if (after != nullptr && after->has(uid())) {
      self().needs = txn_ + 1;
      done_ = 0;
      patience_until_ = 0;
      came_in_ = true;
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
  txn_ = mark - 1;
  state_ = State::kHealLoad;
  phase(Phase::kHeal);
  later(host_.random.between(200 * kMicrosecond, 6 * kMillisecond), &SimWorker::heal_loaded);
}

void SimWorker::heal_loaded() {
  state_ = State::kHealWait;
  if (board_->heal_mark == tried_) {
    value_ = board_->heal_state;
    memory_ = board_->heal_memory;
    ends_ = board_->heal_ends;
    begun_ = true;
    rows_ = board_->heal_rows;
    // Somebody writes another copy into it at the same time.
    for (const auto& [donor, copy] : board_->heal_writers)
      if (copy.state != value_) value_ = mix(value_, donor.value());
    self().progress.ready_txn = tried_;
    share_out();
    dead_at_begin_ = ownership_dead_;
    state_ = State::kJoining;
    host_.ring_all();
  }
  heal_wait();
}

}  // namespace lockstep::simulation
