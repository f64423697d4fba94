// Who takes part in a transaction, and who owns which share of it. Pure functions of a published
// table and the agent's ordered list of the dead; every process computes the same answer
// (docs/design/protocol.md, "Ownership").
//
// Threads: values. Errors: none; broken preconditions are checked by assert.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace lockstep::coord {

inline constexpr std::uint32_t kMaxWorkers = 128;            // members of one table
inline constexpr std::uint32_t kMaxVirtualWorkers = 1024;    // V
inline constexpr std::uint32_t kMaxSlots = 2 * kMaxWorkers;  // members and their replacements

struct Member {
  WorkerUid uid;
  Slot slot;
  friend bool operator==(const Member&, const Member&) = default;
};

// What the next transaction's members do at its start, besides computing.
enum TableFlags : std::uint32_t {
  kNone = 0,
  kStop = 1,  // do not begin `txn`: leave in order, resumable (exit 75 or the signal's code)
  // In the proposal: the time limit is reached. The next table to be published names the last step.
  kTimeIsUp = 2,
};

struct Table {
  Txn txn;  // the transaction it is for
  Generation generation;
  std::uint32_t flags = kNone;
  std::vector<Member> members;  // in rank order
  // The run ends after so many optimizer steps, its time limit being reached; this and all later
  // tables say so. 0: it does not.
  std::uint64_t stop_after_step = 0;

  bool has(WorkerUid uid) const;
};

// A node of the fixed binary tree over V leaves: covers those of the leaves
// [index << level, (index + 1) << level) that are below V.
// Value of a node: its left child's plus its right child's, element by element; with nothing on the
// right (V is padded with nothing) it is the left child's.
struct Node {
  std::uint32_t level = 0;
  std::uint32_t index = 0;
  std::uint32_t first_leaf() const { return index << level; }
  friend bool operator==(const Node&, const Node&) = default;
};

// The fewest nodes that together cover exactly the leaves [first, first + count), left to right.
// `virtual_workers` matters at the right edge: a node that reaches over V counts as covering up to
// V only.
std::vector<Node> cover(std::uint32_t first, std::uint32_t count, std::uint32_t virtual_workers);

// A node whose value one member supplies.
struct Piece {
  Node node;
  std::uint32_t member = 0;  // index into Table::members
};

// Ownership of one transaction's items under a table and the dead so far.
class Ownership {
 public:
  // `items`: V for a step, the number of batches for an epoch's end. `dead`: uids in the agent's
  // order; those not in the table are ignored. Members own contiguous blocks (the first items % W
  // blocks are one longer); each death hands the dead member's items, in order, to the live member
  // that has the fewest (ties: lowest rank). Later deaths never move what live members own.
  // Precondition: 1 <= members <= kMaxWorkers.
  Ownership(const Table& table, std::uint32_t items, std::span<const WorkerUid> dead);

  bool alive(std::uint32_t member) const { return alive_[member]; }
  std::uint32_t live_count() const { return live_; }
  // Lowest live rank: publishes the next table. Precondition: live_count() > 0.
  std::uint32_t first_live() const;

  std::uint32_t owner(std::uint32_t item) const { return owner_[item]; }
  // The member's own block, ascending; then what it adopted, in order of adoption.
  const std::vector<std::uint32_t>& items_of(std::uint32_t member) const {
    return items_of_[member];
  }
  std::uint32_t block_size(std::uint32_t member) const { return block_size_[member]; }

  // Nodes that live members supply, left to right; together they cover all leaves. A member's block
  // is folded into cover(block); adopted leaves come one by one, so that what it has published
  // stays as it is.
  std::vector<Piece> pieces() const;

  // Owner of fixed chunk `chunk` of a bucket of `chunks` chunks; `bucket` spreads buckets of few
  // chunks. Moves only when its owner dies.
  std::uint32_t chunk_owner(std::uint32_t chunk, std::uint32_t chunks, std::uint32_t bucket) const;

 private:
  std::uint32_t items_;
  std::vector<bool> alive_;
  std::uint32_t live_ = 0;
  std::vector<std::uint32_t> owner_;
  std::vector<std::vector<std::uint32_t>> items_of_;
  std::vector<std::uint32_t> block_first_;
  std::vector<std::uint32_t> block_size_;
  std::vector<std::uint32_t> death_order_;              // member indices, in order of death
  std::vector<std::vector<std::uint32_t>> live_after_;  // live members after each death
};

}  // namespace lockstep::coord
