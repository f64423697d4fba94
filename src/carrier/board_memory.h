// A host's board in shared memory as links and rounds see it: what is marked, where it lies, and
// where what other hosts have made lands. docs/design/hosts.md, "What travels".
//
// Most items lie in one piece on the board and land there. A share's record does not: it travels
// with its notes, from and into copies that this object keeps as long as anybody can need them.
//
// Ownership: the board must stay mapped. Errors: none. Threads: one; members write the same board
// meanwhile. Whoever asks the rules calls look() first: tables, deaths and what is whole are as of
// then, or of the last landed().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/exchange.h"
#include "comm/shm/layout.h"
#include "coord/board.h"
#include "coord/ownership.h"
#include "link/memory.h"

namespace lockstep::carrier {

class BoardMemory final : public link::Memory {
 public:
  // Of the board whose first byte this is, with so many bytes mapped; the host is in its present
  // stay. nullptr: no worker has written the run's plan yet (comm/shm/shared_plan.h).
  static std::unique_ptr<BoardMemory> open(std::byte* base, std::uint64_t bytes, coord::Stay self);

  // All that a transaction may have; which of it, its table says.
  const link::SamePlan& plan() const { return contents_; }
  // Rung by members when they have marked something.
  Doorbell& bell() const { return board_.header().link_bell; }
  // What members and the agent have written meanwhile.
  void look() override;

  std::uint64_t mark(const link::Item& item) const override;
  const coord::Table* table(std::uint64_t txn) const override;
  std::uint64_t newest_table() const override { return newest_; }
  std::span<const WorkerUid> deaths() const override { return deaths_; }
  std::uint64_t first() const override { return first_; }
  std::uint64_t first_not_whole() const override { return lowest_; }
  std::vector<link::Item> newcomers() const override;
  std::vector<link::Item> judged() const override { return judged_; }
  std::optional<link::Item> image_for(coord::Stay to) const override;
  bool is_listed() const override;

  Value value(const link::Item& item) const override;
  std::optional<std::span<std::byte>> place(const link::Item& item) override;
  void landed(const link::Item& item, std::uint8_t flags) override;
  void landed(const coord::Table& table) override;

 private:
  using Item = link::Item;
  using Bytes = std::vector<std::byte>;

  // Of one transaction, as this board knows it.
  struct Owned {
    std::size_t deaths = 0;
    std::optional<coord::Ownership> ownership;  // none: this host is not in its table
    std::vector<std::uint32_t> position;        // of each item among its owner's
  };

  BoardMemory(coord::Board board, const comm::ExchangePlan& plan, comm::shm::Layout layout,
              coord::Stay self);

  coord::Word& word(std::uint64_t offset) const {
    return *reinterpret_cast<coord::Word*>(data_ + offset);
  }
  coord::ShareRecord& record(const Item& item) const;
  comm::EvalCell& cell(const Item& item) const;
  bool is_of_plan(const Item& item) const;
  bool is_here(const coord::Member& member) const { return coord::stay_of(member.uid) == self_; }

  // board_memory.cpp: what is there.
  bool look_at_tables();
  void look_at_judged();
  void look_where_it_begins();
  void skip_what_is_gone();
  void advance();
  const Owned* owned(std::uint64_t txn) const;
  const coord::Word* mark_word(const Item& item) const;
  const coord::Member* supplier(const Item& node) const;
  bool is_of_stay(const Item& item) const;
  void each_newcomer(const std::function<void(const coord::Member&)>& what) const;
  void each_proposed_here(const std::function<void(const coord::Member&)>& what) const;

  // board_landing.cpp: bytes.
  std::uint64_t record_bytes() const;
  std::span<std::byte> chunk_of(std::uint64_t value, const Item& item) const;
  std::span<std::byte> memory(const Item& item) const;
  Bytes packed(const Item& item) const;  // of a record
  void unpack(const Item& item, std::span<const std::byte> bytes) const;
  void store_mark(const Item& item, std::uint8_t flags);
  void ring_for(const Item& item);
  void ring_all() const;

  const coord::Board board_;
  const comm::ExchangePlan plan_;
  const comm::shm::Layout layout_;
  std::byte* const data_;
  const coord::Stay self_;
  const link::SamePlan contents_;

  std::array<std::optional<coord::Table>, coord::kTables> tables_;
  std::uint64_t newest_ = 0, first_ = link::kNever, lowest_ = 0;
  std::vector<Item> open_;  // what `lowest_` consists of,
  std::size_t there_ = 0;   // and how many of them, in order, are seen to be marked
  std::vector<WorkerUid> deaths_;
  std::vector<Item> judged_;
  mutable std::map<std::uint64_t, Owned> owned_;
  mutable std::map<Item, Bytes> sent_;  // records as bytes
  std::map<Item, Bytes> landing_;       // the same, by place
};

}  // namespace lockstep::carrier
