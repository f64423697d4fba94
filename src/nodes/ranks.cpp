#include "nodes/ranks.h"

#include <algorithm>

namespace lockstep::nodes {
namespace {

bool is_same_machine(const Row& one, const Row& other) {
  return one.machine == other.machine || one.address == other.address;
}

}  // namespace

Ranks::Ranks(int nodes, Times times) : times_(times), ranks_(static_cast<std::size_t>(nodes)) {
  for (int rank = 0; rank < nodes; ++rank) {
    echoes_.insert(0);
    free_.insert(free_.end(), rank);
  }
}

// Before and after each change of a state.
void Ranks::count(const RankState& state, int by) {
  clear_ += state.clear ? by : 0;
  ended_ += state.ended ? by : 0;
  working_ += state.link && !state.clear ? by : 0;
  here_ += state.link ? by : 0;
  if (!state.taken || state.lost || state.link) return;
  if (by > 0)
    away_.insert(state.closed_at);
  else
    away_.erase(away_.find(state.closed_at));
}

void Ranks::assign(int rank, Link link, const Row& row, std::uint64_t now) {
  RankState& state = of(rank);
  count(state, -1);
  forget_machine(rank);
  free_.erase(rank);
  if (state.taken) incarnations_.erase(state.row.incarnation);
  incarnations_[row.incarnation] = rank;
  if (!state.taken || state.row.incarnation != row.incarnation) {
    set_echo(state, link != kOwnLink, 0);
    state.since = now;
  }
  state.taken = true;
  state.lost = false;
  state.row = row;
  state.has_lock = false;
  state.ran = 0;
  state.led_from.clear();
  state.link = link;
  state.heard_at = now;
  count(state, 1);
  if (link != kOwnLink) deadlines_.set(rank, now + times_.limit);
}

void Ranks::heard(int rank, Stamp echo, std::uint64_t now) {
  RankState& state = of(rank);
  state.heard_at = now;
  if (state.link != kOwnLink && (echo > state.echoed || !state.counts))
    set_echo(state, true, std::max(echo, state.echoed));
}

void Ranks::set_echo(RankState& state, bool counts, Stamp echo) {
  if (state.counts) echoes_.erase(echoes_.find(state.echoed));
  state.counts = counts;
  state.echoed = echo;
  if (counts) echoes_.insert(echo);
}

void Ranks::release_lost() {
  for (int rank = 0; rank < size(); ++rank) release(rank);
}

void Ranks::release(int rank) {
  RankState& state = of(rank);
  if (state.lost || !state.taken) set_echo(state, false, state.echoed);
}

void Ranks::disconnect(RankState& state, bool lost) {
  count(state, -1);
  state.link.reset();
  state.lost = lost;
  state.clear = false;
  count(state, 1);
}

void Ranks::closed(int rank, std::uint64_t now) {
  RankState& state = of(rank);
  state.closed_at = now;  // while it is still connected: it is counted by that once it is not
  disconnect(state, state.lost);
  deadlines_.advance(rank, now + times_.redial);
}

void Ranks::lose(int rank) {
  RankState& state = of(rank);
  disconnect(state, true);
  machines_.emplace(state.row.machine, rank);
  addresses_.emplace(state.row.address, rank);
  deadlines_.set(rank, state.heard_at + 3 * times_.limit);
}

void Ranks::forget_machine(int rank) {
  const Row& row = at(rank).row;
  machines_.erase({row.machine, rank});
  addresses_.erase({row.address, rank});
}

void Ranks::set_clear(int rank, bool clear) {
  count(at(rank), -1);
  of(rank).clear = clear;
  count(at(rank), 1);
}

void Ranks::set_ended(int rank, bool ended) {
  count(at(rank), -1);
  of(rank).ended = ended;
  count(at(rank), 1);
}

void Ranks::nothing_is_clear() {
  for (int rank = 0; rank < size(); ++rank) set_clear(rank, false);
}

void Ranks::nothing_has_ended() {
  for (int rank = 0; rank < size(); ++rank) set_ended(rank, false);
}

std::optional<int> Ranks::take_silent(std::uint64_t now) {
  while (const std::optional<int> rank = deadlines_.take(now)) {
    const RankState& state = at(*rank);
    if (state.lost) {
      free_.insert(*rank);
      continue;
    }
    std::uint64_t due = state.heard_at + times_.limit;
    if (!state.link) due = std::min(due, state.closed_at + times_.redial);
    if (now >= due) return rank;
    deadlines_.set(*rank, due);
  }
  return std::nullopt;
}

int Ranks::of_incarnation(Incarnation incarnation) const {
  const auto found = incarnations_.find(incarnation);
  return found == incarnations_.end() ? -1 : found->second;
}

int Ranks::of_lost(const Row& row) const {
  const auto first = [](const auto& machines, const std::string& machine) {
    const auto found = machines.lower_bound({machine, 0});
    return found != machines.end() && found->first == machine ? found->second : -1;
  };
  const int rank = first(addresses_, row.address);
  return rank >= 0 ? rank : first(machines_, row.machine);
}

bool Ranks::is_vacant(int rank, const Row& row) const {
  const RankState& state = at(rank);
  return free_.contains(rank) || (state.lost && is_same_machine(state.row, row));
}

}  // namespace lockstep::nodes
