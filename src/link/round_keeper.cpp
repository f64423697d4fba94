#include "link/round_keeper.h"

#include <algorithm>
#include <utility>

namespace lockstep::link {

RoundKeeper::RoundKeeper(const Plan& plan, std::uint64_t term, std::vector<Stay> hosts)
    : plan_(plan), hosts_(std::move(hosts)) {
  round_.stamp.term = term;
  for (const Stay stay : hosts_) round_.set.push_back(stay.host);
  round_.table = hosts_;
}

RoundKeeper::RoundKeeper(const Plan& plan, std::uint64_t term, std::vector<Stay> hosts,
                         const std::vector<Round>& votes)
    : RoundKeeper(plan, term, std::move(hosts)) {
  const Round& newest = *std::ranges::max_element(votes, {}, &Round::stamp);
  if (newest.stamp != Stamp{}) {
    round_ = newest;
    round_.stamp = {term, 0};
    for (const Stay stay : hosts_)
      if (!contains(newest.table, stay)) out_of_table_.push_back(stay);
  }
  begin();
}

void RoundKeeper::lose_workers(Stay stay) {
  if (!contains(out_of_table_, stay)) out_of_table_.push_back(stay);
  if (!contains(round_.out, stay)) round_.out.push_back(stay);
  begin();
}

void RoundKeeper::lose_host(Stay stay) {
  std::erase(round_.set, stay.host);
  lose_workers(stay);
}

void RoundKeeper::begin() {
  ++round_.stamp.seq;
  round_.table.clear();
  for (const Stay stay : hosts_)
    if (contains(round_.set, stay.host) && !contains(out_of_table_, stay))
      round_.table.push_back(stay);
  answers_.clear();
  appended_.clear();
}

bool RoundKeeper::hear(const Answer& answer) {
  if (answer.stamp != round_.stamp || !contains(round_.set, answer.host)) return false;
  answers_.emplace(answer.host, answer);
  return true;
}

bool RoundKeeper::hear(const Appended& appended) {
  if (appended.stamp != round_.stamp || !contains(round_.set, appended.host)) return false;
  appended_.insert(appended.host);
  if (appended_.size() == round_.set.size()) round_.out.clear();
  return true;
}

std::vector<Fills> RoundKeeper::fills() const {
  return fills_of(round_, answers_, order_of(round_, answers_), appended_by_all(answers_), plan_);
}

}  // namespace lockstep::link
