// A host's board as plain values in memory, and the one worker of a host, which computes what it
// owns: each value is known beforehand, so whoever uses one sees whether it is right.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "coord/ownership.h"
#include "link/memory.h"
#include "link/owners.h"

namespace lockstep::carrier::test {

using coord::Stay;
using link::Item;
using link::Kind;

// So many transactions; each fifth is an evaluation.
class TestPlan : public link::Plan {
 public:
  TestPlan(std::uint64_t count, std::size_t buffers) : transactions(count), buffer_bytes(buffers) {}
  const link::Contents& contents(std::uint64_t txn) const override {
    return txn >= transactions ? nothing_ : txn % 5 == 4 ? evaluation_ : step_;
  }
  std::size_t bytes(const Item& item) const {
    switch (item.kind) {
      case Kind::kChunk:
      case Kind::kNode:
        return 500 + 4000 * item.bucket + 37 * item.index;
      case Kind::kBuffers:
        return buffer_bytes;
      case Kind::kImage:
        return image_bytes;
      default:
        return 100;
    }
  }
  const std::uint64_t transactions;
  const std::size_t buffer_bytes;
  std::size_t image_bytes = 2'600'000;
  static constexpr std::uint32_t kShares = 6;

 private:
  const link::Contents nothing_;
  const link::Contents step_{
      .chunks = {3, 2}, .records = kShares, .buffers = 1, .rows = kShares, .cells = 0};
  const link::Contents evaluation_{.chunks = {}, .records = 0, .buffers = 0, .rows = 0, .cells = 4};
};

// What an item has to be. Of records and cells it depends on who makes it.
inline std::string content(const TestPlan& plan, const Item& item, link::HostIndex maker) {
  const bool impure = item.kind == Kind::kRecord || item.kind == Kind::kCell;
  std::uint64_t x = item.txn.value() * 1000 + static_cast<std::uint64_t>(item.kind) * 100 +
                    item.bucket * 10 + item.index + (impure ? maker : 0) * 7;
  if (item.kind == Kind::kNode)
    x += std::uint64_t{item.level} << 40 | std::uint64_t{item.node} << 50;
  std::string bytes(plan.bytes(item), '\0');
  for (char& byte : bytes) {
    x = x * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<char>(x >> 56);
  }
  return bytes;
}

class TestBoard : public link::Memory {
 public:
  TestBoard(const TestPlan& plan, Stay stay) : self(stay), plan_(plan) {}

  std::uint64_t mark(const Item& item) const override {
    const auto found = cells_.find(link::place_of(item));
    return found == cells_.end() ? 0 : found->second.mark;
  }
  const coord::Table* table(std::uint64_t txn) const override {
    const auto found = tables_.find(txn % coord::kTables);
    return found == tables_.end() || found->second.txn.value() != txn ? nullptr : &found->second;
  }
  std::uint64_t newest_table() const override { return newest_; }
  std::span<const WorkerUid> deaths() const override { return deaths_; }
  std::uint64_t first() const override { return first_; }
  std::uint64_t first_not_whole() const override { return lowest_; }
  bool is_listed() const override {
    return !comes_ || std::ranges::any_of(tables_, [this](const auto& one) {
      return link::takes_part(one.second, self);
    });
  }
  std::optional<Item> image_for(Stay to) const override {
    const std::uint64_t copied = mark(link::image_of(0, 0));
    if (copied == 0 || to != proposed || table(copied - 1) == nullptr ||
        !link::takes_part(*table(copied - 1), self) || link::takes_part(*table(newest_), to))
      return std::nullopt;
    return link::image_of(copied - 1, self.host);
  }

  Value value(const Item& item) const override {
    return {std::as_bytes(std::span(cells_.at(link::place_of(item)).bytes)), link::kPlain};
  }
  std::optional<std::span<std::byte>> place(const Item& item) override {
    if (item.kind == Kind::kImage && is_listed()) return std::nullopt;
    if (item.kind == Kind::kImage) cell(item).mark = 0;
    return std::as_writable_bytes(std::span(cell(item).bytes));
  }
  void landed(const Item& item, std::uint8_t) override {
    if (item.kind == Kind::kImage) {
      EXPECT_TRUE(bytes(item) == content(plan_, item, item.host)) << "a copy that is none";
      first_ = item.txn.value();
      lowest_ = std::max(lowest_, first_);
    }
    set_mark(item);
    ++landings;
  }
  void landed(const coord::Table& table) override {
    put(table);
    ++landings;
  }

  void put(const coord::Table& table) {
    tables_[table.txn.value() % coord::kTables] = table;
    newest_ = std::max(newest_, table.txn.value());
    set_mark(link::table_of(table.txn.value()));
  }
  // In place, as in a board: a link may be sending what stood there to one that nobody waits for.
  void put(const Item& item) {
    std::ranges::copy(content(plan_, item, self.host), cell(item).bytes.begin());
    set_mark(item);
  }
  const std::string& bytes(const Item& item) { return cell(item).bytes; }
  void append(WorkerUid death) { deaths_.push_back(death); }
  // As a donor does at the start of the transaction: into the one region, whoever reads it.
  void copy(std::uint64_t txn) {
    const Item image = link::image_of(txn, self.host);
    cell(image).mark = 0;
    std::ranges::copy(content(plan_, image, self.host), cell(image).bytes.begin());
    set_mark(image);
  }
  void come() { comes_ = true, first_ = link::kNever; }  // it has no state yet
  std::optional<Stay> proposed;                          // that comes

  const Stay self;
  std::atomic<std::uint64_t> landings{0};

 private:
  struct Cell {
    std::uint64_t mark = 0;
    std::string bytes;
  };
  Cell& cell(const Item& item) {
    Cell& cell = cells_[link::place_of(item)];
    if (item.kind != Kind::kTable) cell.bytes.resize(plan_.bytes(item));
    return cell;
  }
  void set_mark(const Item& item) {
    cell(item).mark = item.txn.value() + 1;
    while (is_whole(lowest_)) ++lowest_;
  }
  bool is_whole(std::uint64_t txn) const {
    const link::Contents& contents = plan_.contents(txn);
    bool whole = contents.shares() > 0 && link::has(*this, link::table_of(txn + 1));
    contents.for_each(txn, [&](const Item& item) { whole = whole && link::has(*this, item); });
    return whole;
  }

  const TestPlan& plan_;
  std::map<Item, Cell> cells_;
  std::map<std::uint64_t, coord::Table> tables_;
  std::vector<WorkerUid> deaths_;
  std::uint64_t newest_ = 0, lowest_ = 0, first_ = 0;
  bool comes_ = false;
};

using Random = std::mt19937_64;
// What impure items are: the same on all boards.
using Seen = std::map<Item, std::string>;

class TestWorker {
 public:
  TestWorker(const TestPlan& plan, TestBoard& board, Seen& seen)
      : plan_(plan), board_(board), seen_(seen) {}

  std::uint64_t txn() const { return txn_; }
  bool is_through() const { return txn_ == plan_.transactions; }
  void begin_at(std::uint64_t txn) { txn_ = txn; }
  std::optional<coord::Member> joins;  // with the next table that this one publishes
  // One thing that it can do now, drawn by chance. False: there is none.
  bool act(Random& random) {
    if (is_through()) return false;
    if (board_.first_not_whole() > txn_) return apply(), true;
    const std::vector<Item> all = possible();
    if (all.empty()) return false;
    const Item item = all[random() % all.size()];
    if (item.kind == Kind::kTable) {
      coord::Table table = *board_.table(txn_);
      table.txn = item.txn;
      std::erase_if(table.members,
                    [&](const auto& one) { return is_dead(coord::stay_of(one.uid)); });
      std::erase_if(table.hosts, [&](const auto& one) { return is_dead(one.stay); });
      if (joins) {
        table.members.push_back(*joins);
        table.hosts.push_back({coord::stay_of(joins->uid), 1});
        joins.reset();
      }
      board_.put(table);
    } else {
      board_.put(item);
    }
    return true;
  }

 private:
  bool is_dead(Stay stay) const { return coord::is_dead(board_.deaths(), coord::death_of(stay)); }
  bool lacks(const Item& item) const { return !link::has(board_, item); }

  std::vector<Item> possible() {
    std::vector<Item> all;
    const auto add = [&](const Item& item) {
      if (lacks(item)) all.push_back(item);
    };
    const coord::Table* table = board_.table(txn_);
    if (table == nullptr) return all;
    const link::Contents& contents = plan_.contents(txn_);
    const coord::Ownership owners(*table, contents.shares(), board_.self, board_.deaths());
    const auto is_own = [&](std::uint32_t member) {
      return coord::stay_of(table->members[member].uid) == board_.self;
    };
    if (const auto first = owners.first_live(); first && is_own(*first))
      add(link::table_of(txn_ + 1));
    contents.for_each(txn_, [&](const Item& item) {
      if (item.kind != Kind::kChunk && is_own(owners.owner(item.index))) add(item);
      if (item.kind != Kind::kChunk || !lacks(item)) return;
      const bool own =
          is_own(owners.chunk_owner(item.index, contents.chunks[item.bucket], item.bucket));
      bool whole = true;
      for (const coord::Piece& piece : owners.pieces()) {
        const Stay stay = coord::stay_of(table->members[piece.member].uid);
        Item node = item;
        node.kind = Kind::kNode;
        node.host = stay.host;
        node.level = piece.node.level;
        node.node = piece.node.index;
        if (stay == board_.self && !own) add(node);
        if (stay == board_.self || !own) continue;
        whole = whole && board_.mark(node) == txn_ + 1;
        if (whole && board_.bytes(node) != content(plan_, node, 0))
          ADD_FAILURE() << "a node of transaction " << txn_ << " has landed wrong";
      }
      if (own && whole) all.push_back(item);
    });
    return all;
  }

  void apply() {
    plan_.contents(txn_).for_each(txn_, [&](const Item& item) {
      if (board_.mark(item) != txn_ + 1) return;
      const std::string& bytes = board_.bytes(item);
      const bool impure = item.kind == Kind::kRecord || item.kind == Kind::kCell;
      const std::string& right =
          impure ? seen_.emplace(item, bytes).first->second : content_ = content(plan_, item, 0);
      EXPECT_TRUE(bytes == right) << link::kKindNames[static_cast<int>(item.kind)] << " "
                                  << item.index << " of transaction " << txn_;
    });
    ++txn_;
  }

  const TestPlan& plan_;
  TestBoard& board_;
  Seen& seen_;
  std::string content_;
  std::uint64_t txn_ = 0;
};

}  // namespace lockstep::carrier::test
