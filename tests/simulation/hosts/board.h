// One host's board as plain values, with its regions, and what every value has to be.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "coord/ownership.h"
#include "link/item.h"
#include "link/marks.h"
#include "shape.h"

namespace lockstep::simulation {

inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {  // as splitmix64 does
  std::uint64_t x = a * 0x9e3779b97f4a7c15 + b + 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Of what is half written.
inline constexpr std::uint64_t kTorn = ~std::uint64_t{0};

struct Cell {
  std::uint64_t mark = 0, value = 0;
  bool writing = false;
};

// The undisturbed run.
class Reference {
 public:
  Reference(const Shape& shape, const SimPlan& plan);
  std::uint64_t state(std::uint64_t txn) const { return states_[txn]; }
  static std::uint64_t share(std::uint64_t state, std::uint64_t txn, std::uint32_t v) {
    return mixed(mixed(state, txn), v);
  }
  static std::uint64_t leaf(std::uint64_t share, std::uint32_t bucket) {
    return mixed(share, bucket);
  }
  static std::uint64_t chunk(std::uint64_t root, std::uint32_t c) { return mixed(root, c); }
  std::uint64_t node(std::uint64_t txn, coord::Node node, std::uint32_t bucket) const;
  coord::Node root() const;
  // None: it depends on who computes it, and when.
  std::optional<std::uint64_t> value(const link::Item& item) const;

 private:
  std::uint32_t virtual_workers_;
  std::vector<std::uint64_t> states_;
};

// The root from nodes that cover it, or any node: whole(node) gives a value or nothing.
template <class Whole>
std::uint64_t folded(coord::Node node, std::uint32_t leaves, const Whole& whole) {
  if (const auto value = whole(node)) return *value;
  if (node.level == 0) return kTorn;
  const coord::Node left{node.level - 1, node.index * 2}, right{node.level - 1, node.index * 2 + 1};
  const std::uint64_t sum = folded(left, leaves, whole);
  return right.first_leaf() < leaves ? mixed(sum, folded(right, leaves, whole)) : sum;
}

class SimBoard : public link::Marks {
 public:
  SimBoard(coord::Stay self, const Trouble& trouble, const SimPlan& plan);

  std::uint64_t mark(const link::Item& item) const override;
  const coord::Table* table(std::uint64_t txn) const override;
  std::uint64_t newest_table() const override { return newest_table_; }
  std::span<const WorkerUid> deaths() const override { return deaths_; }
  std::uint64_t first() const override { return first_; }
  std::uint64_t first_not_whole() const override { return lowest_; }
  std::vector<link::Item> newcomers() const override { return newcomers_; }
  // One of this host has the state of the start of that transaction.
  void set_ready(const link::Item& ready, std::uint64_t uid);
  void begin_at(std::uint64_t txn);  // a newcomer's; kNever: with nothing

  Cell& cell(const link::Item& item) { return cells_[place(item)]; }
  const Cell& cell(const link::Item& item) const { return cells_[place(item)]; }
  // What is sent of it: kTorn where it is not whole.
  std::uint64_t value(const link::Item& item) const;
  // What has to stay as it is until it has been sent.
  std::vector<const Cell*> sources(const link::Item& item) const;
  // Of a member of this host, by its place among the host's workers.
  Cell& piece(std::uint32_t worker, std::uint32_t leaf, std::uint32_t bucket) {
    return pieces_[(worker * virtual_workers_ + leaf) * buckets_ + bucket];
  }
  const Cell& piece(std::uint32_t worker, std::uint32_t leaf, std::uint32_t bucket) const {
    return pieces_[(worker * virtual_workers_ + leaf) * buckets_ + bucket];
  }
  bool whole(std::uint64_t txn) const { return txn < lowest_; }
  // Precondition: its table is here.
  const coord::Ownership& ownership(std::uint64_t txn) const;

  void set_table(const coord::Table& table, std::uint64_t value);  // and its mark
  void set_mark(const link::Item& item, std::uint64_t value);
  void append(WorkerUid death);
  void touch() { ++version_; }
  std::uint64_t version() const { return version_; }  // another one: something has changed

 private:
  std::size_t place(const link::Item& item) const;
  std::optional<std::uint64_t> folded_here(const link::Item& item,
                                           std::vector<const Cell*>* sources = nullptr) const;
  void advance();

  coord::Stay self_;
  const SimPlan& plan_;
  bool two_lists_;
  std::uint32_t virtual_workers_, buckets_, batches_, tables_, generations_;
  std::uint32_t all_chunks_ = 0, nodes_ = 0, depth_ = 0;
  std::vector<std::uint32_t> first_chunk_;
  std::size_t begin_[9] = {};
  std::size_t places_ = 0, stays_ = 0;  // of a host's workers, of a host
  std::vector<link::Item> newcomers_;
  std::vector<Cell> cells_, pieces_;
  std::vector<coord::Table> table_;
  std::vector<WorkerUid> deaths_;
  std::uint64_t first_ = 0, lowest_ = 0, newest_table_ = 0, version_ = 1;
  struct Owned {
    std::uint64_t txn = 0;
    std::size_t deaths = 0;
    std::unique_ptr<coord::Ownership> ownership;
  };
  mutable std::vector<Owned> owned_;
};

}  // namespace lockstep::simulation
