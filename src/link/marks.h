// What the rules of links and rounds see of a run and of one host's board. A simulation has boards
// of plain values behind it, a link will have shared memory.
//
// Threads: whoever implements them says so. Errors: none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
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

// What of it a transaction of these parts has; of parts that nobody has said, all.
inline Contents narrowed(Contents contents, const coord::Parts& parts) {
  if (parts.items == 0) return contents;
  if (!parts.is_step) return {.chunks = {}, .cells = parts.items};
  contents.records = parts.items;
  contents.cells = 0;
  return contents;
}

// The run's: the same on all hosts.
class Plan {
 public:
  virtual ~Plan() = default;
  // At least all that it has; its table says exactly what (narrowed()). Behind the run's end:
  // nothing, or what nobody will make. The reference is good for as long as the plan.
  virtual const Contents& contents(std::uint64_t txn) const = 0;
};

// All transactions may have the same.
class SamePlan final : public Plan {
 public:
  explicit SamePlan(Contents most) : most_(std::move(most)) {}
  const Contents& contents(std::uint64_t) const override { return most_; }

 private:
  Contents most_;
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
  // What is marked of this host's newcomers, kLoading and kReady, as of this moment: so whoever has
  // seen a mark that a member has set after one of these sees that one, too.
  virtual std::vector<Item> newcomers() const { return {}; }
  // The copy of the state that this host's members have made, where one of that host's newcomers
  // waits for it: a host that comes, and is in no table.
  virtual std::optional<Item> image_for(coord::Stay) const { return std::nullopt; }
  // A table that is here lists this host: so others may wait for it. Nobody waits for one that
  // comes, however far behind it is.
  virtual bool is_listed() const { return true; }
  // What is marked of kJudged in transactions whose tables are here.
  virtual std::vector<Item> judged() const { return {}; }
};

inline constexpr std::uint64_t kNever = ~std::uint64_t{0};

// A board that has the agent's list of deaths, and no plan yet: its workers are still to come.
class BareMarks final : public Marks {
 public:
  explicit BareMarks(std::vector<WorkerUid> deaths) : deaths_(std::move(deaths)) {}
  std::uint64_t mark(const Item&) const override { return 0; }
  const coord::Table* table(std::uint64_t) const override { return nullptr; }
  std::uint64_t newest_table() const override { return 0; }
  std::span<const WorkerUid> deaths() const override { return deaths_; }
  std::uint64_t first() const override { return kNever; }
  std::uint64_t first_not_whole() const override { return 0; }
  bool is_listed() const override { return false; }

 private:
  std::vector<WorkerUid> deaths_;
};

// What is marked stays; a later mark says that the item was there.
inline bool has(const Marks& marks, const Item& item) {
  return marks.mark(item) > item.txn.value();
}

}  // namespace lockstep::link
