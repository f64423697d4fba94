// The simulated host: virtual time, shared memory as plain values, and the oracle that every event
// is checked against. One thread. Everything random comes from one seed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "clock.h"
#include "comm/shm/layout.h"
#include "coord/board.h"
#include "coord/events.h"
#include "coord/table.h"

namespace lockstep::simulation {

inline constexpr std::uint32_t kChunks = 2;  // of the one sum

inline std::uint64_t mix(std::uint64_t a,
                         std::uint64_t b) {  // splitmix64 (Steele, Lea, Flood 2014)
  std::uint64_t x = a * 0x9e3779b97f4a7c15 + b + 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// A word of shared memory and what it vouches for.
struct Cell {
  std::uint64_t mark = 0, value = 0;
};

// The run as it would be without faults.
struct Plan {
  std::uint32_t virtual_workers = 1;
  std::uint64_t transactions = 20;
  std::uint64_t checkpoint_every = 5;
  std::uint64_t epoch = 0;        // transactions of one; 0: no end in sight
  std::uint64_t evaluations = 1;  // in a row, at an epoch's end
  std::uint32_t batches = 1;      // of each

  // `stop`: so many transactions there are, its time being up; 0: none. Behind it the epoch that it
  // breaks is evaluated.
  bool is_step(std::uint64_t txn, std::uint64_t stop = 0) const {
    return (stop == 0 || txn < stop) && (epoch == 0 || txn % epoch < epoch - evaluations);
  }
  std::uint64_t end(std::uint64_t stop) const {
    if (stop == 0) return transactions;
    return stop + (epoch != 0 && is_step(stop - 1) && stop % epoch != 0 ? evaluations : 0);
  }
  std::uint32_t items(std::uint64_t txn, std::uint64_t stop) const {
    return is_step(txn, stop) ? virtual_workers : batches;
  }
  std::uint64_t share(std::uint64_t state, std::uint64_t txn, std::uint32_t v) const {
    return mix(mix(state, txn), v);
  }
  // What the evaluation `txn` gives for a batch.
  std::uint64_t batch(std::uint64_t state, std::uint64_t txn, std::uint32_t item) const {
    return mix(mix(state, ~txn), item);
  }
  static std::uint64_t chunk(std::uint64_t sum, std::uint32_t c) { return mix(sum, c); }
  // Virtual worker 0's buffers after its share.
  static std::uint64_t buffers(std::uint64_t share) { return mix(share, 0xb0ff); }
  static std::uint64_t apply(std::uint64_t state, std::span<const Cell> chunks,
                             const Cell& buffers);
  // State at the start of each transaction, and at the end.
  std::vector<std::uint64_t> reference() const;
};

// How many transactions' tables, buffers and evaluations the board keeps apart.
struct BoardSizes {
  std::uint32_t tables = coord::kTables;
  std::uint32_t evaluations = coord::kTables;
  std::uint32_t buffers = coord::kTables;
  bool stops_wait = true;  // for the record of the last step
};

// What coord/board.h and the engine keep in shared memory.
struct SimSlot {
  std::uint64_t uid = 0;
  coord::WorkerProgress progress;
  std::vector<Cell> pieces;  // by share
  // Oracle: mark of the oldest sum that the live owner still has to apply; 0: none.
  std::uint64_t needs = 0;
};

struct SimBoard {
  SimBoard(const Plan& plan, const BoardSizes& sizes);

  std::vector<std::optional<coord::Table>> tables;  // of txn: at txn % size
  coord::Table proposal;
  std::vector<WorkerUid> dead;
  WorkerUid heal_donor{0};
  std::uint64_t heal_request = 0;
  std::uint64_t heal_mark = 0, heal_state = 0;
  struct Copy {
    std::uint64_t state = 0;
    bool ended = false;  // died while it wrote
  };
  std::map<WorkerUid, Copy> heal_writers;  // those who are at it
  bool final_recorded = false;
  std::uint64_t stop_recorded = 0;
  std::vector<SimSlot> slots{coord::kMaxSlots};
  std::array<Cell, kChunks> chunks;            // of the sum
  std::vector<Cell> buffers;                   // of a step: at txn % size
  std::vector<std::vector<Cell>> evaluations;  // each one's batches: at txn % size
  std::vector<std::uint64_t> recorded;         // marks of the share records
  // Oracle: all tables ever written.
  std::map<std::uint64_t, coord::Table> history;

  // txn + 1 of the table that lies where that of `txn` belongs; 0: none.
  std::uint64_t table_mark(std::uint64_t txn) const;
  const coord::Table* table(std::uint64_t txn) const;  // nullptr: another one, or none
  void write_table(const coord::Table& table);
  Cell& buffer(std::uint64_t txn) { return buffers[txn % buffers.size()]; }
  std::vector<Cell>& batches(std::uint64_t txn) { return evaluations[txn % evaluations.size()]; }
  bool is_dead(WorkerUid uid) const {
    return std::find(dead.begin(), dead.end(), uid) != dead.end();
  }
};

// What the run directory has survives the board.
struct Checkpoint {
  std::uint64_t txn = 0, state = 0;
};

// Each uid and slot once, at least one.
void check_members(const std::vector<coord::Member>& members);

}  // namespace lockstep::simulation
