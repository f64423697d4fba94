#include "link/host_rounds.h"

#include <algorithm>
#include <utility>

#include "link/messages.h"

namespace lockstep::link {

HostRounds::HostRounds(Stay self, std::vector<HostIndex> set) : self_(self) {
  round_.set = std::move(set);
}

bool HostRounds::hear(const Round& round) {
  if (round.stamp.term < promised_ || round.stamp <= round_.stamp) return false;
  promised_ = round.stamp.term;
  for (const HostIndex host : round_.set)  // also one that was outside both sets stays closed
    if (!contains(round.set, host) && !contains(orders_.closed, host))
      orders_.closed.push_back(host);
  round_ = round;
  fills_.reset();
  answered_ = appended_ = false;
  order_link();
  return true;
}

bool HostRounds::hear(const Fills& fills) {
  if (fills.stamp.term < promised_ || fills.stamp != round_.stamp || fills_) return false;
  fills_ = fills;
  order_link();
  return true;
}

Round HostRounds::vote(std::uint64_t term) {
  promised_ = std::max(promised_, term);
  return round_;
}

// A host outside the set has no pair at all. One that is being taken out has none until the fills
// are told, and then, if it is still in the set, for these alone.
bool HostRounds::is_open(HostIndex other) const {
  const auto in_set = [this](HostIndex host) { return contains(round_.set, host); };
  const auto out = [this](HostIndex host) {
    return std::ranges::any_of(round_.out, [host](Stay stay) { return stay.host == host; });
  };
  if (!in_set(other) || !in_set(self_.host)) return false;
  return fills_.has_value() || (!out(other) && !out(self_.host));
}

void HostRounds::order_link() {
  std::vector<HostIndex> others = std::exchange(orders_.closed, {});
  for (const HostIndex host : round_.set)
    if (!contains(others, host)) others.push_back(host);
  for (const Stay stay : round_.out)
    if (!contains(others, stay.host)) others.push_back(stay.host);
  for (const HostIndex host : others)
    if (host != self_.host && !is_open(host)) orders_.closed.push_back(host);
  orders_.round = round_.stamp;
  orders_.out = round_.out;
  orders_.fills = fills_ ? fills_->send : std::vector<Fills::Send>{};
}

std::optional<Answer> HostRounds::answer(const Marks& marks, const Plan& plan,
                                         const Stamp& closed) {
  if (answered_ || closed != round_.stamp) return {};
  answered_ = true;
  Answer answer{.stamp = round_.stamp,
                .host = self_.host,
                .have = have_of(marks, plan),
                .other_tables = {},
                .appended = {}};
  const std::uint64_t newest = marks.newest_table();
  for (std::uint64_t t = newest - std::min<std::uint64_t>(newest, coord::kTables - 1); t <= newest;
       ++t)
    if (const coord::Table* table = marks.table(t)) {
      const std::uint64_t content = content_of(*table);
      if (contains(round_.known, content))
        answer.known_tables.push_back({t, content});
      else
        answer.other_tables.push_back(*table);
    }
  for (const WorkerUid death : marks.deaths())
    if (death == coord::death_of(coord::stay_of(death)))
      answer.appended.push_back(coord::stay_of(death));
  return answer;
}

std::optional<HostRounds::Append> HostRounds::append(const Marks& marks) {
  if (appended_ || !fills_) return {};
  // A newcomer may have begun later since it has answered.
  const auto missing = [&](const Item& item) {
    return item.txn.value() >= marks.first() && !has(marks, item);
  };
  if (std::ranges::any_of(fills_->get, missing)) return {};
  appended_ = true;
  Append append{.hosts = {}, .told = {.stamp = round_.stamp, .host = self_.host}};
  for (const Stay stay : fills_->order)
    if (!coord::is_dead(marks.deaths(), coord::death_of(stay))) append.hosts.push_back(stay);
  return append;
}

}  // namespace lockstep::link
