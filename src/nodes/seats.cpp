#include "nodes/seats.h"

#include <algorithm>

namespace lockstep::nodes {
namespace {

bool is_same_place(const Row& one, const Row& other) {
  return one.machine == other.machine || one.address == other.address;
}

}  // namespace

Seats::Seats(int nodes, Times times) : times_(times), seats_(static_cast<std::size_t>(nodes)) {
  for (int rank = 0; rank < nodes; ++rank) {
    echoes_.insert(0);
    free_.insert(free_.end(), rank);
  }
}

// Before and after each change of a seat.
void Seats::count(const Seat& seat, int by) {
  clear_ += seat.clear ? by : 0;
  ended_ += seat.ended ? by : 0;
  working_ += seat.link && !seat.clear ? by : 0;
  here_ += seat.link ? by : 0;
  if (!seat.taken || seat.lost || seat.link) return;
  if (by > 0)
    away_.insert(seat.closed_at);
  else
    away_.erase(away_.find(seat.closed_at));
}

void Seats::sit(int rank, Link link, const Row& row, std::uint64_t now) {
  Seat& seat = of(rank);
  count(seat, -1);
  forget_place(rank);
  free_.erase(rank);
  if (seat.taken) incarnations_.erase(seat.row.incarnation);
  incarnations_[row.incarnation] = rank;
  if (!seat.taken || seat.row.incarnation != row.incarnation) {
    set_echo(seat, link != kOwnLink, 0);
    seat.since = now;
  }
  seat.taken = true;
  seat.lost = false;
  seat.row = row;
  seat.alone = false;
  seat.ran = 0;
  seat.led_from.clear();
  seat.link = link;
  seat.heard_at = now;
  count(seat, 1);
  if (link != kOwnLink) deadlines_.set(rank, now + times_.limit);
}

void Seats::heard(int rank, Stamp echo, std::uint64_t now) {
  Seat& seat = of(rank);
  seat.heard_at = now;
  if (seat.link != kOwnLink && (echo > seat.echoed || !seat.counts))
    set_echo(seat, true, std::max(echo, seat.echoed));
}

void Seats::set_echo(Seat& seat, bool counts, Stamp echo) {
  if (seat.counts) echoes_.erase(echoes_.find(seat.echoed));
  seat.counts = counts;
  seat.echoed = echo;
  if (counts) echoes_.insert(echo);
}

void Seats::release_lost() {
  for (int rank = 0; rank < size(); ++rank) release(rank);
}

void Seats::release(int rank) {
  Seat& seat = of(rank);
  if (seat.lost || !seat.taken) set_echo(seat, false, seat.echoed);
}

void Seats::disconnect(Seat& seat, bool lost) {
  count(seat, -1);
  seat.link.reset();
  seat.lost = lost;
  seat.clear = false;
  count(seat, 1);
}

void Seats::closed(int rank, std::uint64_t now) {
  Seat& seat = of(rank);
  seat.closed_at = now;  // while it is still connected: it is counted by that once it is not
  disconnect(seat, seat.lost);
  deadlines_.advance(rank, now + times_.redial);
}

void Seats::lose(int rank) {
  Seat& seat = of(rank);
  disconnect(seat, true);
  machines_.emplace(seat.row.machine, rank);
  addresses_.emplace(seat.row.address, rank);
  deadlines_.set(rank, seat.heard_at + 3 * times_.limit);
}

void Seats::forget_place(int rank) {
  const Row& row = at(rank).row;
  machines_.erase({row.machine, rank});
  addresses_.erase({row.address, rank});
}

void Seats::set_clear(int rank, bool clear) {
  count(at(rank), -1);
  of(rank).clear = clear;
  count(at(rank), 1);
}

void Seats::set_ended(int rank, bool ended) {
  count(at(rank), -1);
  of(rank).ended = ended;
  count(at(rank), 1);
}

void Seats::nothing_is_clear() {
  for (int rank = 0; rank < size(); ++rank) set_clear(rank, false);
}

void Seats::nothing_has_ended() {
  for (int rank = 0; rank < size(); ++rank) set_ended(rank, false);
}

std::optional<int> Seats::take_silent(std::uint64_t now) {
  while (const std::optional<int> rank = deadlines_.take(now)) {
    const Seat& seat = at(*rank);
    if (seat.lost) {
      free_.insert(*rank);
      continue;
    }
    std::uint64_t due = seat.heard_at + times_.limit;
    if (!seat.link) due = std::min(due, seat.closed_at + times_.redial);
    if (now >= due) return rank;
    deadlines_.set(*rank, due);
  }
  return std::nullopt;
}

int Seats::of_incarnation(Incarnation incarnation) const {
  const auto found = incarnations_.find(incarnation);
  return found == incarnations_.end() ? -1 : found->second;
}

int Seats::of_place(const Row& row) const {
  const auto first = [](const auto& places, const std::string& place) {
    const auto found = places.lower_bound({place, 0});
    return found != places.end() && found->first == place ? found->second : -1;
  };
  const int rank = first(addresses_, row.address);
  return rank >= 0 ? rank : first(machines_, row.machine);
}

bool Seats::is_vacant(int rank, const Row& row) const {
  const Seat& seat = at(rank);
  return free_.contains(rank) || (seat.lost && is_same_place(seat.row, row));
}

}  // namespace lockstep::nodes
