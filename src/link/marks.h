// What the rules of links and rounds see of a run and of one host's board. A simulation has boards
// of plain values behind it, a link will have shared memory.
//
// Threads: whoever implements them says so. Errors: none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coord/table.h"
#include "link/item.h"

namespace lockstep::link {

// How many items of each kind one transaction has. The table of the next belongs to it, too.
struct Contents {
  std::vector<std::uint32_t> chunks;  // of each bucket
  std::uint32_t records = 0, buffers = 0, rows = 0, cells = 0;

  // What Ownership deals out: V of a step, or the batches of an evaluation.
  std::uint32_t shares() const { return records > 0 ? records : cells; }
  // Calls what(item) for all that have a place in Have, but no table.
  template <class What>
  void for_each(std::uint64_t txn, What what) const {
    const auto each = [&](Kind kind, std::uint32_t count, std::uint32_t bucket = 0) {
      for (std::uint32_t i = 0; i < count; ++i)
        what(Item{.txn = Txn(txn), .kind = kind, .bucket = bucket, .index = i});
    };
    for (std::uint32_t b = 0; b < chunks.size(); ++b) each(Kind::kChunk, chunks[b], b);
    each(Kind::kRecord, records);
    each(Kind::kBuffers, buffers);
    each(Kind::kRow, rows);
    each(Kind::kCell, cells);
  }
};

// The run's: the same on all hosts.
class Plan {
 public:
  virtual ~Plan() = default;
  // Behind the run's end: nothing. The reference is good for as long as the plan.
  virtual const Contents& contents(std::uint64_t txn) const = 0;
};

class Marks {
 public:
  virtual ~Marks() = default;
  // t + 1 of what lies, whole, in the item's place; 0: nothing yet. Of a node of this host: of what
  // it has folded.
  virtual std::uint64_t mark(const Item& item) const = 0;
  // nullptr: not on this board. Good until the board changes.
  virtual const coord::Table* table(std::uint64_t txn) const = 0;
  virtual std::uint64_t newest_table() const = 0;
  // In the order in which this board has appended them.
  virtual std::span<const WorkerUid> deaths() const = 0;
  // The first transaction that this board has anything of, or needs: of a newcomer, the one at
  // whose start its state is; while it has none, kNever.
  virtual std::uint64_t first() const { return 0; }
  // The lowest transaction that is not whole on this board.
  virtual std::uint64_t first_not_whole() const = 0;
};

inline constexpr std::uint64_t kNever = ~std::uint64_t{0};

// What is marked stays; a later mark says that the item was there.
inline bool has(const Marks& marks, const Item& item) {
  return marks.mark(item) > item.txn.value();
}

}  // namespace lockstep::link
