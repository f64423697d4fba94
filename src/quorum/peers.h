// What an agent keeps of each other one: when it heard it last, and echoes.
//
// Times are nanoseconds of this agent's clock; 0: never. Threads: one at a time. Errors: none.
#pragma once

#include <cstdint>
#include <limits>
#include <map>

#include "quorum/set.h"

namespace lockstep::quorum {

inline constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();

constexpr std::uint64_t age(std::uint64_t since, std::uint64_t now) {
  return since == 0 ? kForever : now - since;
}

struct Peer {
  std::uint64_t sign = 0;      // the last one
  std::uint64_t answered = 0;  // when this agent sent what the other has answered last in this term
  std::uint64_t theirs = 0;    // `sent`, by its own clock, of the newest that counted in this term
  std::uint64_t would = 0;   // when it said last that this agent would get its vote; 0: it says no
  std::uint64_t waited = 0;  // when it spoke last and heard no leader, or leads
  std::uint64_t owed = 0;    // when it was to be answered at once, last
  bool out = false;
  bool was_in = false;  // a set in force
};

class Peers {
 public:
  Peer& operator[](const Member& member) { return peers_[member]; }
  const Peer& at(const Member& member) const;
  auto begin() const { return peers_.begin(); }
  auto end() const { return peers_.end(); }

  void begin_term();
  void remember(const Set& in_force);
  // Since when a quorum of the set has answered what `self` sent; 0: none has.
  std::uint64_t quorum_since(const Set& set, const Member& self, const Ties& ties,
                             std::uint64_t now) const;

 private:
  std::map<Member, Peer> peers_;
};

}  // namespace lockstep::quorum
