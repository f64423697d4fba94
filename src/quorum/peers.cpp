#include "quorum/peers.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace lockstep::quorum {

const Peer& Peers::at(const Member& member) const {
  static const Peer kUnknown;
  const auto found = peers_.find(member);
  return found == peers_.end() ? kUnknown : found->second;
}

void Peers::begin_term() {
  for (auto& [member, peer] : peers_) peer.answered = peer.theirs = 0;
}

void Peers::remember(const Set& in_force) {
  for (const Member& member : in_force.members) peers_[member].was_in = true;
}

std::uint64_t Peers::quorum_since(const Set& set, const Member& self, const Ties& ties,
                                  std::uint64_t now) const {
  if (is_quorum(set, {self}, ties)) return now;
  std::vector<std::pair<std::uint64_t, Member>> answers;
  for (const Member& member : set.members)
    if (member != self) answers.emplace_back(at(member).answered, member);
  std::ranges::sort(answers, std::greater());
  Members who{self};
  for (const auto& [time, member] : answers) {
    who.insert(member);
    if (is_quorum(set, who, ties)) return time;
  }
  return 0;
}

}  // namespace lockstep::quorum
