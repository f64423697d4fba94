// What a host's board has: each side of a pair tells it when the pair is made, and every host in
// its answer to a round.
//
// Threads: values. Errors: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "link/item.h"
#include "link/marks.h"

namespace lockstep::link {

struct Have {
  std::uint64_t first = 0;   // Marks::first(): of those before it nothing is there, or needed
  std::uint64_t lowest = 0;  // not whole there; from first on all of those before it is there
  // Of `lowest` and the three behind it, and tables up to that of lowest + 4; in order.
  std::vector<Item> marked = {};

  // Of a node: false, it is not told.
  bool has(const Item& item) const {
    if (item.kind == Kind::kNode) return false;
    if (item.txn.value() < lowest) return item.txn.value() >= first;
    return std::binary_search(marked.begin(), marked.end(), item);
  }
  bool lacks(const Item& item) const { return item.txn.value() >= first && !has(item); }
};

inline Have have_of(const Marks& marks, const Plan& plan) {
  Have have{.first = marks.first(), .lowest = marks.first_not_whole(), .marked = {}};
  const auto add = [&](const Item& item) {
    if (has(marks, item)) have.marked.push_back(item);
  };
  if (have.first == kNever) return have;
  for (std::uint64_t t = have.lowest; t < have.lowest + coord::kTables; ++t) {
    add(table_of(t));
    if (t < have.lowest + coord::kGenerations) plan.contents(t).for_each(t, add);
  }
  return have;
}

}  // namespace lockstep::link
