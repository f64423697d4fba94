// A simulated worker: keeps docs/design/protocol.md against the simulated board, in virtual time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "coord/actions.h"
#include "coord/events.h"
#include "coord/ownership.h"
#include "simulation/world.h"

namespace lockstep::simulation {

// What all workers of a simulated host share with the agent.
struct Host {
  Clock& clock;
  Random& random;
  const Plan& plan;
  const Plan::Reference& reference;
  Planted planted{};
  Checkpoint checkpoint{};
  std::uint64_t step_time = kMillisecond;  // of one share
  double preempted = 0;                    // chance of a worker to wait for a CPU
  std::uint64_t most_preempted = 0;
  // The program's own code before this transaction, in all workers: so long, and some longer.
  std::optional<std::uint64_t> own_code_txn{};
  std::uint64_t own_code = 0, own_code_more = 0;
  std::uint64_t last_commit_at = 0, commits = 0;  // by any worker
  std::uint64_t time_limit = 0;                   // of the run; 0: none
  bool stops_wait = true;                         // for its record
  std::uint64_t stop_in_effect = 0;               // somebody has gone on behind it
  std::uint64_t stop_file = 0;                    // as recorded; 0: none
  std::uint64_t stopped = 0;                      // workers that came to the end of a stopped run
  std::uint64_t overtaken = 0;  // commits by workers that nobody waited for any more
  // (txn, share) -> uid at it now
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint64_t> computing{};
  std::function<void(WorkerUid, coord::Event)> to_agent{};  // a message, on its way
  std::function<void(WorkerUid, coord::ExitStatus)> exited{};
  std::function<void()> ring_all{};
};

class SimWorker {
 public:
  SimWorker(Host& host, std::shared_ptr<SimBoard> board, const coord::action::Spawn& spawn);

  bool alive() const { return !dead_; }
  WorkerUid uid() const { return spawn_.uid; }
  Slot slot() const { return spawn_.slot; }
  const std::shared_ptr<SimBoard>& board() const { return board_; }
  bool boots() const { return state_ == State::kBoot; }
  bool healing() const {
    return state_ == State::kHealWait || state_ == State::kHealLoad || state_ == State::kJoining;
  }
  // Has done its part of the last step before an evaluation, and the others have not.
  bool waits() const { return state_ == State::kWaitWhole && !stopped_ && !is_step(txn_ + 1); }

  // The agent's answer.
  void admit(bool newcomer);
  // Something it waits for may have changed.
  void ring();

  // Faults.
  void end(coord::ExitStatus status);
  void stop();
  void go_on();
  void hang() { hang_wanted_ = true; }                // at its next share
  void slow_down(std::uint64_t by) { slowed_ = by; }  // the same
  void hang_between() { idle_hang_wanted_ = true; }   // before its next transaction, or in a copy
  void signal(int number);  // that asks for an end: noted, as soon as it runs
  void hang_up();           // closes its socket, and goes on as another program
  bool hung() const { return hung_; }
  bool is_signalled() const { return board_->slots[spawn_.slot.value()].progress.signal != 0; }
  bool stopped() const { return stopped_; }
  // Oracle: how long it has stood still, without being held back from outside.
  std::uint64_t stood_still() const;
  bool in_exchange() const;

  std::string picture() const;

 private:
  enum class State {
    kBoot,
    kWaitTable,
    kBusy,
    kWaitWhole,
    kChecking,
    kHealWait,
    kHealLoad,
    kJoining,
    kEnding
  };

  void later(std::uint64_t delay, void (SimWorker::*what)());
  void run(void (SimWorker::*what)());
  void look();
  void describe();
  void loaded();
  void begin();
  void skip();
  void saved();
  bool overtaken() const;
  void own_code();
  void compute();
  void computed();
  void deliver_share(std::uint32_t v);
  void deliver_late();
  std::uint64_t row_of(std::uint32_t v) const;
  void deliver_batch(std::uint32_t item);
  void sum_chunks();
  void leave_out_chunks();
  bool left_out(std::uint32_t c) const { return board_->left_out(txn_)[c] == txn_ + 1; }
  std::uint64_t losses() const;
  bool asks_to_end() const;
  std::uint64_t apply_sums() const;
  bool is_border(std::uint64_t txn) const {
    return host_.planted.no_borders || host_.plan.is_border(txn, table_.stop_after_step);
  }
  bool whole() const;
  void exchange();
  void check_dead();
  void committed();
  bool apply();
  void run_hook();
  void begin_after_own_code();
  bool passed_over() const;
  bool is_step(std::uint64_t txn) const { return host_.plan.is_step(txn, table_.stop_after_step); }
  // The undisturbed run's state at its start; and behind the loop's own code there.
  std::uint64_t reference(std::uint64_t txn) const { return host_.reference.states[place(txn)]; }
  std::uint64_t begun(std::uint64_t state) const {
    return host_.plan.begun(state, txn_, table_.stop_after_step);
  }
  std::uint64_t end_of_run() const;
  std::uint64_t place(std::uint64_t txn) const;

  // sim_worker_membership.cpp
  void wait_table();
  void depart();
  void finish();
  std::uint64_t stop_behind(std::uint64_t txn) const;
  bool leaving() const;
  bool table_published() const { return board_->table_mark(txn_ + 1) > txn_ + 1; }
  std::vector<coord::Member> wanted_joiners() const;
  bool settle_joiners();
  void publish_table(const std::vector<coord::Member>& joiners);
  void donate();
  void donated();
  void heal_wait();
  void heal_loaded();

  SimSlot& self() { return board_->slots[spawn_.slot.value()]; }
  void phase(coord::Phase phase);
  void write_check(const char* what) const;
  void share_out();  // under the dead as of now
  std::uint32_t index_in(const coord::Table& table) const;
  bool first_live() const;

  Host& host_;
  std::shared_ptr<SimBoard> board_;
  coord::action::Spawn spawn_;
  State state_ = State::kBoot;
  bool dead_ = false, stopped_ = false, hang_wanted_ = false, hung_ = false;
  bool idle_hang_wanted_ = false, ran_own_code_ = false;
  bool ring_pending_ = false, rung_ = false;
  int pending_signal_ = 0;
  std::uint64_t slowed_ = 0, still_since_ = 0, stopped_at_ = 0;
  std::deque<void (SimWorker::*)()> held_;  // what a stopped process would have done
  std::uint64_t txn_ = 0, value_ = 0;       // the transaction, and the state at its start
  std::uint64_t memory_ = 0;                // what the step has taught so far, a part of that state
  Rows rows_;                               // another part of it
  bool ends_ = false;                       // the step, the run: another part
  bool begun_ = false;                      // the loop's own code has run before txn_
  std::uint64_t end_ = 0;                   // as far as it knows; 0: that of the plan
  std::uint64_t generator_ = 0;             // the process's
  bool came_in_ = false;                    // with this transaction
  std::vector<std::function<void()>> late_;  // planted: what it has yet to write
  coord::Table table_;
  std::optional<coord::Ownership> ownership_;
  std::size_t ownership_dead_ = 0, dead_at_begin_ = 0;
  std::size_t done_ = 0;
  std::uint64_t handled_request_ = 0, tried_ = 0, patience_until_ = 0;
  std::uint32_t doublings_ = 0;
  bool spoken_ = false;
};

}  // namespace lockstep::simulation
