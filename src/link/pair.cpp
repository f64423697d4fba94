#include "link/pair.h"

#include <utility>

namespace lockstep::link {

void Pair::open(const Have& theirs) {
  open_ = true;
  lowest_ = theirs.first == kNever ? 0 : theirs.lowest;
  known_.clear();
  known_.insert(theirs.marked.begin(), theirs.marked.end());
  find_due();
}

void Pair::obey(const Orders& orders) {
  out_ = orders.out;
  fills_.clear();
  for (const Fills::Send& fill : orders.fills)
    if (fill.to == other_.host) fills_.push_back(fill.item);
  find_due();
}

void Pair::find_due() {
  due_.clear();
  for (const Item& item : fills_)
    if (!knows(item)) due_.insert(item);
}

bool Pair::knows(const Item& item) const {
  return (item.kind != Kind::kNode && item.txn.value() < lowest_) || known_.contains(item);
}

void Pair::know(const Item& item) {
  known_.insert(item);
  due_.erase(item);
  if (item.kind != Kind::kTable) return;
  // Nobody is so far behind.
  const std::uint64_t newest = item.txn.value();
  std::erase_if(
      known_, [newest](const Item& old) { return old.txn.value() + 2 * coord::kTables < newest; });
}

void Pair::sent(const Item& item) { know(item); }

void Pair::comes(std::optional<std::uint64_t> txn) {
  coming_ = txn;
  if (txn) lowest_ = std::max(lowest_, *txn);
}

bool Pair::serves(const Marks& marks, const coord::Table& table) const {
  const auto gone = [&](Stay stay) {
    return contains(out_, stay) || coord::is_dead(marks.deaths(), coord::death_of(stay));
  };
  const bool comes = coming_ && table.txn.value() >= *coming_;
  return (comes || takes_part(table, other_)) && !gone(self_) && !gone(other_);
}

// What the other must have before an item of txn, and before it what that one's transaction needs.
// None: it has it, or this board has not.
std::optional<Item> Pair::table_first(const Marks& marks, std::uint64_t txn) const {
  std::optional<Item> first;
  for (; !has_table(txn) && marks.table(txn) != nullptr; --txn) {
    first = table_of(txn);
    if (txn == 0) break;
  }
  return first;
}

std::vector<Item> Pair::sendable(const Marks& marks, BoardOwners& owners) const {
  std::vector<Item> items;
  if (!open_) return items;
  const auto add = [&items](const Item& item) {
    if (!contains(items, item)) items.push_back(item);
  };
  for (const Item& item : due_) {
    if (marks.mark(item) != item.txn.value() + 1) continue;
    const bool first_of_all = item == table_of(0);
    const auto table = first_of_all ? std::nullopt : table_first(marks, made_in(item));
    add(table.value_or(item));
  }
  const std::uint64_t newest = marks.newest_table();
  for (std::uint64_t t = newest - std::min<std::uint64_t>(newest, coord::kTables - 1); t <= newest;
       ++t) {
    const coord::Table* table = marks.table(t);
    if (table == nullptr || !serves(marks, *table)) continue;
    if (const auto first = table_first(marks, t))
      add(*first);
    else
      add_own(marks, owners.at(marks, t), t, items);
  }
  return items;
}

void Pair::add_own(const Marks& marks, const Owners& owners, std::uint64_t txn,
                   std::vector<Item>& items) const {
  const Contents& contents = owners.contents();
  const auto add = [&](const Item& item) {
    if (!knows(item) && !due_.contains(item) && marks.mark(item) == item.txn.value() + 1)
      items.push_back(item);
  };
  const auto add_if_own = [&](const Item& item) {
    if (owners.owner(item) == self_) add(item);
  };
  if (!contains(items, table_of(txn + 1))) add_if_own(table_of(txn + 1));
  contents.for_each(txn, [&](const Item& item) {
    add_if_own(item);
    if (item.kind != Kind::kChunk || owners.owner(item) != other_ || knows(item)) return;
    for (const coord::Node node : owners.nodes(self_))
      add({.txn = item.txn,
           .kind = Kind::kNode,
           .host = self_.host,
           .level = node.level,
           .node = node.index,
           .bucket = item.bucket,
           .index = item.index});
  });
}

Landings::Fate Landings::begin(const Marks& marks, const Item& item, HostIndex from) {
  if (has(marks, item)) return Fate::kBin;
  return landing_.emplace(place_of(item), from).second ? Fate::kLands : Fate::kAside;
}

void Landings::drop(HostIndex from) {
  std::erase_if(landing_, [from](const auto& one) { return one.second == from; });
}

}  // namespace lockstep::link
