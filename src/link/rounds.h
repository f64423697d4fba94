// What is said in a round (docs/design/hosts.md, "Rounds"): plain values that a wire can carry.
//
// Threads: values. Errors: none.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <vector>

#include "coord/table.h"
#include "link/have.h"
#include "link/item.h"

namespace lockstep::link {

using coord::Stay;
using HostIndex = std::uint16_t;  // among the run's hosts

template <class T>
bool contains(const std::vector<T>& all, const T& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// Of the leader's facts; the newest counts.
struct Stamp {
  std::uint64_t term = 0, seq = 0;
  friend auto operator<=>(const Stamp&, const Stamp&) = default;
};

// The leader to all: these are being taken out.
struct Round {
  Stamp stamp;
  std::vector<HostIndex> set;  // after this change: all that stay, and answer
  std::vector<Stay> out;       // until all that stay have appended them; those in the set lose
                               // their place in the tables alone
  std::vector<Stay> table;     // that get what they lack: in the tables, and not being taken out
};

// A host to the leader, once nothing can land any more of those that are being taken out.
struct Answer {
  Stamp stamp;
  HostIndex host = 0;
  Have have;
  std::vector<coord::Table> tables;  // on its board
  std::vector<Stay> appended;        // hosts, in this board's order
};

// The leader to one host.
struct Fills {
  struct Send {
    HostIndex to = 0;
    Item item;
    friend auto operator<=>(const Send&, const Send&) = default;
  };
  Stamp stamp;
  HostIndex host = 0;
  std::vector<Stay> order;  // to be appended, those that are already included
  std::vector<Item> get;    // before that
  std::vector<Send> send;
};

// A host to the leader: it has appended them.
struct Appended {
  Stamp stamp;
  HostIndex host = 0;
};

}  // namespace lockstep::link
