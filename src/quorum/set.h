// Who decides: sets of agents, and their quorums (docs/design/leader.md, "Sets").
//
// Threads: values. Errors: none.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <set>
#include <vector>

namespace lockstep::quorum {

// One incarnation of a host's agent: started again, it is another one.
struct Member {
  std::uint16_t host = 0;         // among the run's hosts
  std::uint64_t incarnation = 0;  // drawn at random; 0: nobody
  friend auto operator<=>(const Member&, const Member&) = default;
};
using Members = std::set<Member>;

struct Set {
  std::uint64_t id = 0;         // its own, drawn whenever one is decided; 0: none
  std::vector<Member> members;  // by when they entered; those of one decision by host

  bool has(const Member& member) const {
    return std::find(members.begin(), members.end(), member) != members.end();
  }
  explicit operator bool() const { return id != 0; }
  friend bool operator==(const Set&, const Set&) = default;
};

// What of a set of two is a quorum, besides both (rule 11).
struct Ties {
  bool by_file = false;    // not the first, but whoever has the file of that set
  std::uint64_t file = 0;  // of the set with this id the caller has it
};

// More than half of the set, or exactly half with its first.
bool is_quorum(const Set& set, const Members& who, const Ties& ties);

// The set of these members, with an id of its own: those that stay in their order, then the others.
Set changed(const Set& from, const Members& members, std::uint64_t id);

}  // namespace lockstep::quorum
