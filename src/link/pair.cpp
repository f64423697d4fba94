#include "link/pair.h"

#include <utility>

namespace lockstep::link {

void Pair::open(const Have& theirs) {
  open_ = true;
  lowest_ = theirs.first == kNever ? 0 : theirs.lowest;
  known_.clear();
  wanted_.clear();
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
  return (is_in_have(item.kind) && item.txn.value() < lowest_) || known_.contains(item);
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

bool Pair::is_gone(const Marks& marks, Stay stay) const {
  return contains(out_, stay) || coord::is_dead(marks.deaths(), coord::death_of(stay));
}

bool Pair::serves(const Marks& marks, const coord::Table& table) const {
  const bool comes = coming_ && table.txn.value() >= *coming_;
  return (comes || takes_part(table, other_)) && !is_gone(marks, self_) && !is_gone(marks, other_);
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
  add_newcomers(marks, items);
  add_judged(marks, items);
  add_image(marks, items);
  return items;
}

// Before all others: a donor's record tells that its copy is there, so it comes no sooner.
void Pair::add_newcomers(const Marks& marks, std::vector<Item>& items) const {
  for (const Item& item : marks.newcomers()) {
    const coord::Table* table = marks.table(item.txn.value());
    if (table != nullptr && serves(marks, *table) && has_table(item.txn.value()) && !knows(item) &&
        item.txn.value() >= lowest_)
      items.insert(items.begin(), item);
  }
}

// Also of what is whole there but for them.
void Pair::add_judged(const Marks& marks, std::vector<Item>& items) const {
  for (const Item& item : marks.judged()) {
    const coord::Table* table = marks.table(item.txn.value());
    if (table != nullptr && serves(marks, *table) && has_table(item.txn.value()) && !knows(item))
      items.push_back(item);
  }
}

// Behind all others: it is large, and nobody's next step needs it. It is of use with its table
// alone, and that one is here as long as somebody may need it.
void Pair::add_image(const Marks& marks, std::vector<Item>& items) const {
  const std::optional<Item> image = marks.image_for(other_);
  if (!image || knows(*image) || is_gone(marks, self_) || is_gone(marks, other_)) return;
  const Item table = table_of(image->txn.value());
  if (!has_table(image->txn.value()) && !contains(items, table)) items.push_back(table);
  items.push_back(*image);
}

std::vector<Item>& Pair::wanted(const Owners& owners, std::uint64_t txn, std::size_t deaths) const {
  while (!wanted_.empty() && wanted_.begin()->first + coord::kTables < txn)
    wanted_.erase(wanted_.begin());
  const auto [entry, is_new] = wanted_.try_emplace(txn);
  Wanted& wanted = entry->second;
  if (!is_new && wanted.deaths == deaths) return wanted.items;
  wanted = {deaths, {}};
  const auto add_if_own = [&](const Item& item) {
    if (owners.owner(item) == self_) wanted.items.push_back(item);
  };
  add_if_own(table_of(txn + 1));
  owners.contents().for_each(txn, [&](const Item& item) {
    add_if_own(item);
    if (item.kind != Kind::kChunk || owners.owner(item) != other_) return;
    for (const coord::Node node : owners.nodes(self_))
      wanted.items.push_back({.txn = item.txn,
                              .kind = Kind::kNode,
                              .host = self_.host,
                              .level = node.level,
                              .node = node.index,
                              .bucket = item.bucket,
                              .index = item.index});
  });
  return wanted.items;
}

void Pair::add_own(const Marks& marks, const Owners& owners, std::uint64_t txn,
                   std::vector<Item>& items) const {
  const bool has_next_table = contains(items, table_of(txn + 1));
  std::erase_if(wanted(owners, txn, marks.deaths().size()), [&](const Item& item) {
    if (marks.mark(item) != item.txn.value() + 1) return false;
    Item of = item;  // nobody needs a node of a chunk that is there
    if (item.kind == Kind::kNode) of.kind = Kind::kChunk, of.host = 0, of.level = of.node = 0;
    if (knows(item) || knows(of)) return true;
    if (!due_.contains(item) && !(has_next_table && item.kind == Kind::kTable))
      items.push_back(item);
    return false;
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
