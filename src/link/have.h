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
  // Of `lowest` and the three behind it, and tables up to that of lowest + 4; of a newcomer, for
  // whom nobody waits, of all that its board has; in order.
  std::vector<Item> marked = {};

  // Of what is never told here: false.
  bool has(const Item& item) const {
    if (!is_in_have(item.kind)) return false;
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
  const std::uint64_t newest = marks.newest_table();
  std::uint64_t from = have.lowest;
  if (have.first == kNever) from = newest - std::min<std::uint64_t>(newest, coord::kGenerations);
  const std::uint64_t behind = std::max(from + coord::kTables, newest + 1);
  for (std::uint64_t t = from; t < behind; ++t) {
    add(table_of(t));
    plan.contents(t).for_each(t, add);
  }
  return have;
}

}  // namespace lockstep::link
