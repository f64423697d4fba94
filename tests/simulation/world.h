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
  std::uint64_t sum_of =
      0;  // of a chunk: txn + 1 of its value, which leaving it out does not touch
};

using Rows = std::vector<std::uint64_t>;  // by virtual worker

// The run as it would be without faults.
struct Plan {
  std::uint32_t virtual_workers = 1;
  std::uint64_t transactions = 20;
  std::uint64_t checkpoint_every = 5;
  std::uint64_t epoch = 0;        // transactions of one; 0: no end in sight
  std::uint64_t evaluations = 1;  // in a row, at an epoch's end
  std::uint32_t batches = 1;      // of each
  std::uint64_t updates = 1;      // of a step, a transaction each
  std::uint64_t asks_to_end = 0;  // the record of virtual worker 0 does, in this one; 0: in none

  // Which of its step's updates it is; 0: also an evaluation.
  std::uint64_t update(std::uint64_t txn, std::uint64_t stop = 0) const {
    return is_step(txn, stop) ? (epoch == 0 ? txn : txn % epoch) % updates : 0;
  }
  // Members may come and go, and the run may stop, at its start.
  bool is_border(std::uint64_t txn, std::uint64_t stop = 0) const { return update(txn, stop) == 0; }
  // Each chunk is a bucket. Of several updates one after the other has a sum of one of them.
  bool has_sum(std::uint64_t txn, std::uint32_t c) const {
    return updates == 1 || update(txn) % kChunks == c;
  }
  // Behind the step in which a share asks for it; 0: nowhere.
  std::uint64_t program_end(std::uint64_t stop) const {
    if (asks_to_end == 0 || !is_step(asks_to_end, stop)) return 0;
    std::uint64_t end = asks_to_end + 1;
    while (!is_border(end)) ++end;
    return end;
  }
  // What the loop's own code makes of the state before a step.
  std::uint64_t begun(std::uint64_t state, std::uint64_t txn, std::uint64_t stop = 0) const {
    return is_step(txn, stop) && is_border(txn, stop) ? mix(state, 0x0b5e) : state;
  }
  // What a share's record says besides, and what the updates of a step so far have taught.
  static std::uint64_t loss(std::uint64_t share) { return mix(share, 0x1055); }
  std::uint64_t remember(std::uint64_t memory, std::uint64_t txn, std::uint64_t losses) const {
    return is_border(txn) ? losses : mix(memory, losses);
  }
  // To what the commit seeds the generator.
  static std::uint64_t seed(std::uint64_t txn) { return mix(txn, 0x5eed); }
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
  // `row`: what virtual worker v carries.
  std::uint64_t share(std::uint64_t state, std::uint64_t row, std::uint64_t txn,
                      std::uint32_t v) const {
    return mix(mix(mix(state, txn), v), row);
  }
  // What the program does at an update, which sees its buffers and rows.
  static std::uint64_t hook(std::uint64_t state, const Rows& rows) {
    for (const std::uint64_t row : rows) state = mix(state, row);
    return mix(state, 0x400c);
  }
  // What it carries from there; some shares carry nothing, and the row stays.
  static std::uint64_t carry(std::uint64_t row, std::uint64_t share) {
    return share % 4 == 0 ? row : mix(share, 0x40b5);
  }
  // What the evaluation `txn` gives for a batch.
  std::uint64_t batch(std::uint64_t state, std::uint64_t txn, std::uint32_t item) const {
    return mix(mix(state, ~txn), item);
  }
  static std::uint64_t chunk(std::uint64_t sum, std::uint32_t c) { return mix(sum, c); }
  // Virtual worker 0's buffers after its share.
  static std::uint64_t buffers(std::uint64_t share) { return mix(share, 0xb0ff); }
  std::uint64_t apply(std::uint64_t state, std::uint64_t txn, std::span<const Cell> chunks,
                      const Cell& buffers, std::uint64_t generator) const;
  // At the start of each transaction, and at the end: state, rows, and what the step has taught by
  // then.
  struct Reference {
    std::vector<std::uint64_t> states{42};
    std::vector<Rows> rows;
    std::vector<std::uint64_t> memories{0};
  };
  Reference reference() const;
};

// The first that is drawn of a seed.
Plan make_plan(Random& random, std::uint64_t seed);

// Mistakes that the simulation has to find.
struct Planted {
  bool no_borders = false;         // newcomers come into a step, and leavers leave it
  bool image_forgets = false;      // what a step has taught so far is not in a newcomer's copy
  bool image_forgets_end = false;  // of that, whether it is the last
  bool records_lack_loss = false;  // a worker knows the losses of its own shares alone
  bool records_lack_end = false;   // or whether its own shares ask for the end
  bool empty_is_a_sum = false;
  bool generator_stays = false;  // where the worker's last share has left it
  bool own_code_before = false;  // before a checkpoint, which is resumed with it once more
  // Who computes a share again begins with the row that the dead has carried in it.
  bool row_before_commit = false;
  // What a share carries, and virtual worker 0's buffers, are written behind its record's mark, and
  // only that is waited for.
  bool rows_late = false, buffers_late = false;
  // What the program does at an update: once more where a death was seen in it; not in a newcomer;
  // with the rows of the update before.
  bool hook_twice = false, no_hook_if_late = false, hook_before_rows = false;
};

// How many transactions' tables, buffers and evaluations the board keeps apart.
struct BoardSizes {
  std::uint32_t tables = coord::kTables;
  std::uint32_t evaluations = coord::kGenerations;
  std::uint32_t buffers = coord::kGenerations;
  std::uint32_t left_out = coord::kGenerations;
  std::uint32_t rows = coord::kGenerations;
  bool stops_wait = true;  // for the record of the last step
  Planted planted = {};
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
  std::uint64_t heal_mark = 0, heal_state = 0, heal_memory = 0;
  bool heal_ends = false;
  Rows heal_rows;
  struct Copy {
    std::uint64_t state = 0;
    bool ended = false;  // died while it wrote
  };
  std::map<WorkerUid, Copy> heal_writers;  // those who are at it
  bool final_recorded = false;
  std::uint64_t stop_recorded = 0;
  std::vector<SimSlot> slots{coord::kMaxSlots};
  std::array<Cell, kChunks> chunks;  // of the sum
  using LeftOut = std::array<std::uint64_t, kChunks>;
  std::vector<LeftOut> left_out_marks;         // of the chunks of a step: at txn % size
  std::vector<Cell> buffers;                   // of a step: at txn % size
  std::vector<std::vector<Cell>> rows;         // that shares carry: at txn % size
  std::vector<std::vector<Cell>> evaluations;  // each one's batches: at txn % size
  std::vector<std::vector<Cell>> records;      // of the shares of a step: at txn % size
  // Oracle: all tables ever written.
  std::map<std::uint64_t, coord::Table> history;

  // txn + 1 of the table that lies where that of `txn` belongs; 0: none.
  std::uint64_t table_mark(std::uint64_t txn) const;
  const coord::Table* table(std::uint64_t txn) const;  // nullptr: another one, or none
  // `border`: a step begins there, or none does.
  void write_table(const coord::Table& table, bool border = true);
  Cell& buffer(std::uint64_t txn) { return buffers[txn % buffers.size()]; }
  LeftOut& left_out(std::uint64_t txn) { return left_out_marks[txn % left_out_marks.size()]; }
  std::vector<Cell>& row(std::uint64_t txn) { return rows[txn % rows.size()]; }
  std::vector<Cell>& recorded(std::uint64_t txn) { return records[txn % records.size()]; }
  std::vector<Cell>& batches(std::uint64_t txn) { return evaluations[txn % evaluations.size()]; }
  bool is_dead(WorkerUid uid) const {
    return std::find(dead.begin(), dead.end(), uid) != dead.end();
  }
};

// What the run directory has survives the board.
struct Checkpoint {
  std::uint64_t txn = 0, state = 0, memory = 0;
  Rows rows;
};

// Each uid and slot once, at least one.
void check_members(const std::vector<coord::Member>& members);

}  // namespace lockstep::simulation
