#include "link/round_keeper.h"

#include <algorithm>
#include <utility>

#include "link/messages.h"

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
    for (const Stay stay : newest.table) {
      std::erase_if(hosts_, [stay](Stay one) { return one.host == stay.host; });
      hosts_.push_back(stay);
    }
    for (const Stay stay : hosts_)
      if (!contains(newest.table, stay)) out_of_table_.push_back(stay);
  }
  begin();
}

void RoundKeeper::know(const Marks& marks) {
  knows_.clear();
  const std::uint64_t newest = marks.newest_table();
  for (std::uint64_t t = newest - std::min<std::uint64_t>(newest, coord::kTables - 1); t <= newest;
       ++t)
    if (const coord::Table* table = marks.table(t)) knows_.try_emplace(content_of(*table), *table);
}

void RoundKeeper::join(Stay stay) {
  std::erase_if(hosts_, [stay](Stay one) { return one.host == stay.host; });
  hosts_.push_back(stay);
  std::erase(out_of_table_, stay);  // as who leads anew has found it
  if (!contains(round_.set, stay.host)) round_.set.push_back(stay.host);
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
  known_ = knows_;
  round_.known.clear();
  for (const auto& [content, table] : known_) round_.known.push_back(content);
  answers_.clear();
  tabled_.clear();
  appended_.clear();
}

bool RoundKeeper::hear(const Answer& answer) {
  if (answer.stamp != round_.stamp || !contains(round_.set, answer.host)) return false;
  return keep(answer);
}

// Of tables that several have, one is enough.
bool RoundKeeper::keep(Answer answer) {
  for (const Answer::Same& same : answer.known_tables)
    if (!known_.contains(same.content)) return false;
  std::erase_if(answer.other_tables, [this](const coord::Table& table) {
    return !tabled_.insert(table.txn.value()).second;
  });
  for (const Answer::Same& same : std::exchange(answer.known_tables, {})) {
    if (!tabled_.insert(same.txn).second) continue;
    answer.other_tables.push_back(known_.at(same.content));
    answer.other_tables.back().txn = Txn(same.txn);
  }
  const HostIndex host = answer.host;
  answers_.emplace(host, std::move(answer));
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
