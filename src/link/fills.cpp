#include "link/fills.h"

#include <algorithm>
#include <optional>

#include "link/owners.h"

namespace lockstep::link {
namespace {

class Dealer {
 public:
  Dealer(const Round& round, const Answers& answers, const std::vector<Stay>& base,
         const Plan& plan)
      : round_(round), answers_(answers), plan_(plan) {
    for (const Stay stay : base) deaths_.push_back(coord::death_of(stay));
  }

  void deal(std::map<HostIndex, Fills>& fills) {
    std::uint64_t low = ~std::uint64_t{0}, newest = 0, high = 0;
    for (const auto& [host, answer] : answers_) {
      if (answer.have.first == kNever) continue;
      low = std::min(low, answer.have.lowest);
      newest = std::max(newest, answer.have.lowest);
      high = newest + coord::kTables;
    }
    // What lies further back is on no board any more; a host that left the tables long ago, or a
    // comer, may still be there.
    low = std::max(low, newest - std::min<std::uint64_t>(newest, coord::kTables));
    for (std::uint64_t t = low; t < high; ++t) {
      const auto owners = owners_of(t);
      const bool any = std::ranges::any_of(
          answers_, [t](const auto& each) { return has_some_of(each.second.have, t); });
      const auto one = [&](const Item& item) {
        if (is_of_the_dead(owners, item)) deal(item, fills);
      };
      if (any) (owners ? owners->contents() : plan_.contents(t)).for_each(t, one);
      one(table_of(t + 1));
    }
  }

 private:
  static bool has_some_of(const Have& have, std::uint64_t txn) {
    if (txn < have.lowest) return txn >= have.first;
    const auto first = std::ranges::lower_bound(have.marked, table_of(txn));
    return first != have.marked.end() && first->txn.value() == txn;
  }

  // Of a transaction; none: its table is in no answer.
  std::optional<Owners> owners_of(std::uint64_t txn) const {
    for (const auto& [host, answer] : answers_)
      for (const coord::Table& table : answer.other_tables)
        if (table.txn.value() == txn) return Owners(table, plan_.contents(txn), deaths_);
    return {};
  }

  bool is_of_the_dead(const std::optional<Owners>& owners, const Item& item) const {
    if (!owners) return true;
    const auto owner = owners->owner(item);
    return !owner || contains(round_.out, *owner);
  }

  void deal(const Item& item, std::map<HostIndex, Fills>& fills) const {
    std::vector<HostIndex> holders;
    for (const auto& [host, answer] : answers_)
      if (answer.have.has(item)) holders.push_back(host);
    if (holders.empty()) return;
    for (const Stay stay : round_.table) {
      const auto lacks = answers_.find(stay.host);
      if (lacks == answers_.end() || !lacks->second.have.lacks(item)) continue;
      const auto next = std::ranges::upper_bound(holders, stay.host);
      const HostIndex from = next == holders.end() ? holders.front() : *next;
      fills[stay.host].get.push_back(item);
      fills[from].send.push_back({.to = stay.host, .item = item});
    }
  }

  const Round& round_;
  const Answers& answers_;
  const Plan& plan_;
  std::vector<WorkerUid> deaths_;
};

}  // namespace

std::vector<Stay> order_of(const Round& round, const Answers& answers) {
  std::vector<Stay> order;
  for (const auto& [host, answer] : answers)
    if (answer.appended.size() > order.size()) order = answer.appended;
  std::vector<Stay> others = round.out;
  std::ranges::sort(others);
  for (const Stay stay : others)
    if (!contains(order, stay)) order.push_back(stay);
  return order;
}

std::vector<Stay> appended_by_all(const Answers& answers) {
  const std::vector<Stay>* fewest = nullptr;
  for (const auto& [host, answer] : answers)
    if (answer.have.first != kNever &&
        (fewest == nullptr || answer.appended.size() < fewest->size()))
      fewest = &answer.appended;
  return fewest == nullptr ? std::vector<Stay>{} : *fewest;
}

std::vector<Fills> fills_of(const Round& round, const Answers& answers,
                            const std::vector<Stay>& order, const std::vector<Stay>& base,
                            const Plan& plan) {
  std::map<HostIndex, Fills> fills;
  for (const auto& [host, answer] : answers) fills[host];
  Dealer(round, answers, base, plan).deal(fills);
  std::vector<Fills> all;
  for (auto& [host, one] : fills) {
    one.stamp = round.stamp;
    one.host = host;
    one.order = order;
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace lockstep::link
