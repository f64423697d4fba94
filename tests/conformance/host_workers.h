// The workers of one host of a run on several: threads that are its members over the exchange in
// shared memory. What a member computes follows from the transaction alone; what it says of itself
// (who it is) must be the same on all boards none the less. Who carries marks between the boards is
// the test's to say.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "carrier/board_memory.h"
#include "conformance/member.h"

namespace lockstep::conformance {

// The run as it is planned.
struct Shape {
  std::vector<std::uint32_t> workers{1, 1};  // of each host
  std::uint32_t virtual_workers = 8;
  std::uint64_t transactions = 6;
  std::uint64_t sets = 1;         // see conformance::Work
  std::uint64_t evaluations = 0;  // bit t: transaction t is one; at most two in a row, as in runs
  std::uint32_t batches = 5;
  std::uint64_t seed = 1;
  std::uint64_t state_bytes = 0;

  std::uint32_t all() const;
  bool is_step(std::uint64_t txn) const { return (evaluations >> txn & 1) == 0; }
  coord::Parts parts(std::uint64_t txn) const {
    return is_step(txn) ? coord::Parts{virtual_workers, true} : coord::Parts{batches, false};
  }
};

// What one worker or, all at once, a host dies of.
struct Fault {
  std::uint32_t host = 0;
  std::optional<std::uint32_t> worker;  // none: the host
  std::uint64_t txn = 0;
  Death death = Death::kAfterAllPublished;
};

comm::ExchangePlan plan_of(const Shape& shape);
coord::Table first_table(const Shape& shape);
inline coord::BoardPlan board_plan_of(const Shape& shape) { return {shape.virtual_workers, 3, 64}; }

// Of a run that is over: what is left of the last transactions is the same on all boards, also what
// depends on who made it.
void check_boards(const Shape& shape, const std::vector<const carrier::BoardMemory*>& boards);

class HostWorkers {
 public:
  // `memory`: `bytes` of them, zero; it must outlive the object. The exchanges are made, and with
  // them the plan is on the board.
  HostWorkers(const Shape& shape, std::vector<Fault> faults, std::uint32_t index, std::byte* memory,
              std::uint64_t bytes);
  ~HostWorkers() { await(); }
  HostWorkers(const HostWorkers&) = delete;
  HostWorkers& operator=(const HostWorkers&) = delete;

  coord::Stay stay() const { return {static_cast<std::uint16_t>(index_), 1}; }
  coord::Board board() const { return board_; }
  comm::Exchange& exchange(std::uint32_t worker) const { return *exchanges_[worker]; }
  void start();
  void await();  // until all have ended, or died
  // None begins that transaction or a later one before this is called again. Any thread.
  void stop_before(std::uint64_t txn);
  // To the board's list, as the host's agent does; rings all.
  void append(const std::vector<WorkerUid>& deaths);
  Death death_of(std::uint32_t worker, std::uint64_t txn) const;
  bool dies_whole(std::uint64_t txn) const;

 private:
  void work(std::uint32_t worker);
  bool take(comm::Exchange& exchange, const coord::Table& table, WorkerUid uid, Death death);
  void compute(comm::Exchange& exchange, const coord::Table& table, WorkerUid uid, bool some);
  bool is_whole(comm::Exchange& exchange, const coord::Table& table) const;
  std::string check(comm::Exchange& exchange, const coord::Table& table) const;
  void publish_next(comm::Exchange& exchange, const coord::Table& table);
  void dawdle(std::uint64_t where) const;

  const Shape shape_;
  const std::vector<Fault> faults_;
  const std::uint32_t index_;
  const Work work_;
  coord::Board board_;
  std::vector<std::unique_ptr<comm::Exchange>> exchanges_;
  std::vector<std::thread> threads_;
  std::mutex appending_;
  std::atomic<std::uint64_t> border_ = std::numeric_limits<std::uint64_t>::max();
};

// So long must the memory of such a board be.
std::uint64_t board_bytes_of(const Shape& shape);

}  // namespace lockstep::conformance
