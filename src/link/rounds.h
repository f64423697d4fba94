// What is said in a round (docs/design/hosts.md, "Rounds"): plain values that a wire can carry.
//
// Threads: values. Errors: none.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <vector>

#include "base/stamp.h"
#include "coord/table.h"
#include "link/have.h"
#include "link/item.h"

namespace lockstep::link {

using coord::HostIndex;
using coord::Stay;
using lockstep::Stamp;  // of the leader's facts; the newest counts

template <class T>
bool contains(const std::vector<T>& all, const T& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// The leader to all: these are being taken out.
struct Round {
  Stamp stamp;
  std::vector<HostIndex> set;  // after this change: all that stay, and answer
  std::vector<Stay> out;       // until all that stay have appended them; those in the set lose
                               // their place in the tables alone
  std::vector<Stay> table;     // that get what they lack: in the tables, and not being taken out
  std::vector<std::uint64_t> known = {};  // contents of tables (content_of()) that the leader has
};

// A host to the leader, once nothing can land any more of those that are being taken out.
struct Answer {
  Stamp stamp;
  HostIndex host = 0;
  Have have;
  // On its board. Each names all hosts of the run; so what the leader knows is only named.
  struct Same {
    std::uint64_t txn = 0, content = 0;
    friend bool operator==(const Same&, const Same&) = default;
  };
  std::vector<coord::Table> other_tables;
  std::vector<Stay> appended;  // hosts, in this board's order
  std::vector<Same> known_tables = {};

  bool has_table() const { return !other_tables.empty() || !known_tables.empty(); }
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

// A host to a new leader: nothing that leaders of older terms say in rounds counts there any more.
struct Promise {
  std::uint64_t term = 0;
  HostIndex host = 0;
  Round newest;  // that it has heard
};

// A host to the leader: it has appended them.
struct Appended {
  Stamp stamp;
  HostIndex host = 0;
};

}  // namespace lockstep::link
