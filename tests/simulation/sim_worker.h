// A simulated worker: keeps docs/design/protocol.md against the simulated board, in virtual time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "coord/actions.h"
#include "coord/events.h"
#include "simulation/world.h"

namespace lockstep::simulation {

// What all workers of a simulated host share with the agent.
struct Host {
  Clock& clock;
  Random& random;
  const Plan& plan;
  const std::vector<std::uint64_t>& reference;
  Checkpoint checkpoint{};
  std::uint64_t step_time = kMillisecond;         // of one share
  std::uint64_t last_commit_at = 0, commits = 0;  // by any worker
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
  bool healing() const {
    return state_ == State::kHealWait || state_ == State::kHealLoad || state_ == State::kJoining;
  }

  // The agent's answer.
  void admit(bool newcomer);
  // Something it waits for may have changed.
  void ring();

  // Faults.
  void end(coord::ExitStatus status);
  void stop() { stopped_ = true; }
  void go_on();
  void hang() { hang_wanted_ = true; }  // at its next share
  bool stopped() const { return stopped_; }

  std::string picture() const;

 private:
  enum class State {
    kBoot,
    kWaitTable,
    kBusy,
    kWaitWhole,
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
  void wait_table();
  void begin();
  void donated();
  void compute();
  void computed();
  void exchange();
  bool publish_table(bool when_whole);
  void sum_chunks();
  bool whole();
  bool recorded() const;
  void committed();
  void saved();
  void heal_wait();
  void heal_loaded();
  void leave();

  SimSlot& self() { return board_->slots[spawn_.slot.value()]; }
  void phase(coord::Phase phase);
  void write_check(const char* what) const;
  const coord::Ownership& ownership();
  std::uint32_t index_in(const coord::Table& table) const;
  bool first_live();

  Host& host_;
  std::shared_ptr<SimBoard> board_;
  coord::action::Spawn spawn_;
  State state_ = State::kBoot;
  bool dead_ = false, stopped_ = false, hang_wanted_ = false, hung_ = false, ring_pending_ = false;
  std::deque<void (SimWorker::*)()> held_;  // what a stopped process would have done
  std::uint64_t txn_ = 0, value_ = 0;       // the transaction, and the state at its start
  coord::Table table_;
  std::optional<coord::Ownership> ownership_;
  std::size_t ownership_dead_ = 0;
  std::size_t done_ = 0;
  std::uint64_t handled_request_ = 0, tried_ = 0, patience_until_ = 0;
  bool spoken_ = false;
};

}  // namespace lockstep::simulation
