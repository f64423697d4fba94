#include "board.h"

#include <algorithm>

#include "../clock.h"

namespace lockstep::simulation {
namespace {

using link::Item;
using link::Kind;

std::uint32_t levels(std::uint32_t leaves) {
  std::uint32_t level = 0;
  while ((1U << level) < leaves) ++level;
  return level;
}

}  // namespace

SimPlan::SimPlan(const Shape& shape) : transactions_(shape.transactions), ends_(shape.ends) {
  step_.chunks = shape.chunks;
  step_.records = shape.virtual_workers;
  step_.buffers = shape.buffers ? 1 : 0;
  step_.rows = shape.rows ? shape.virtual_workers : 0;
  evaluation_.cells = shape.cells;
}

Reference::Reference(const Shape& shape, const SimPlan& plan)
    : virtual_workers_(shape.virtual_workers), states_{42} {
  for (std::uint64_t t = 0; t < shape.transactions; ++t) {
    std::uint64_t state = states_.back();
    const auto& chunks = plan.contents(t).chunks;
    for (std::uint32_t b = 0; b < chunks.size(); ++b)
      for (std::uint32_t c = 0; c < chunks[b]; ++c)
        state = mixed(state, chunk(node(t, root(), b), c));
    states_.push_back(state);
  }
}

coord::Node Reference::root() const { return {levels(virtual_workers_), 0}; }

std::uint64_t Reference::node(std::uint64_t txn, coord::Node node, std::uint32_t bucket) const {
  return folded(node, virtual_workers_, [&](coord::Node one) -> std::optional<std::uint64_t> {
    if (one.level > 0) return {};
    return leaf(share(states_[txn], txn, one.index), bucket);
  });
}

std::optional<std::uint64_t> Reference::value(const Item& item) const {
  const std::uint64_t t = item.txn.value();
  switch (item.kind) {
    case Kind::kNode:
      return node(t, {item.level, item.node}, item.bucket);
    case Kind::kChunk:
      return chunk(node(t, root(), item.bucket), item.index);
    case Kind::kBuffers:
      return mixed(share(states_[t], t, 0), 0xb0ff);
    case Kind::kRow:
      return mixed(share(states_[t], t, item.index), 0x40b5);
    default:
      return {};
  }
}

SimBoard::SimBoard(coord::Stay self, const Trouble& trouble, const SimPlan& plan)
    : self_(self),
      plan_(plan),
      two_lists_(trouble.planted == Planted::kTwoLists),
      virtual_workers_(trouble.shape.virtual_workers),
      buckets_(static_cast<std::uint32_t>(trouble.shape.chunks.size())),
      batches_(trouble.shape.cells),
      tables_(trouble.tables),
      generations_(trouble.generations),
      table_(trouble.tables),
      owned_(coord::kTables) {
  for (const std::uint32_t chunks : trouble.shape.chunks) {
    first_chunk_.push_back(all_chunks_);
    all_chunks_ += chunks;
  }
  depth_ = levels(virtual_workers_);
  nodes_ = 2U << depth_;
  const std::size_t hosts = trouble.shape.workers.size();
  stays_ = static_cast<std::size_t>(trouble.budget.returns) + 2;
  places_ = *std::ranges::max_element(trouble.shape.workers) +
            static_cast<std::size_t>(trouble.budget.replacements + trouble.budget.returns);
  const std::size_t sizes[] = {tables_,
                               all_chunks_,
                               std::size_t{generations_} * virtual_workers_,
                               generations_,
                               std::size_t{generations_} * virtual_workers_,
                               std::size_t{generations_} * batches_,
                               hosts * nodes_ * all_chunks_,
                               hosts,
                               hosts * stays_ * places_};
  std::size_t all = 0;
  for (std::size_t kind = 0; kind < std::size(sizes); ++kind) {
    begin_[kind] = all;
    all += sizes[kind];
  }
  cells_.resize(all);
  pieces_.resize(places_ * virtual_workers_ * buckets_);
}

std::size_t SimBoard::place(const Item& item) const {
  const std::size_t begin = begin_[static_cast<std::size_t>(item.kind)];
  const std::size_t generation = item.txn.value() % generations_;
  switch (item.kind) {
    case Kind::kTable:
      return begin + item.txn.value() % tables_;
    case Kind::kChunk:
      return begin + first_chunk_[item.bucket] + item.index;
    case Kind::kBuffers:
      return begin + generation;
    case Kind::kCell:
      return begin + generation * batches_ + item.index;
    case Kind::kLoading:
      return begin + item.host;
    case Kind::kReady:
      return begin + (item.host * stays_ + item.level) * places_ + item.index;
    case Kind::kNode: {
      const std::size_t node = (std::size_t{1} << (depth_ - item.level)) - 1 + item.node;
      return begin + (item.host * nodes_ + node) * all_chunks_ + first_chunk_[item.bucket] +
             item.index;
    }
    default:
      return begin + generation * virtual_workers_ + item.index;
  }
}

// Of a node of this host, from its members' pieces.
std::optional<std::uint64_t> SimBoard::folded_here(const Item& item,
                                                   std::vector<const Cell*>* sources) const {
  const std::uint64_t t = item.txn.value();
  const coord::Table* members = table(t);
  if (members == nullptr) return {};
  const coord::Ownership& owners = ownership(t);
  bool whole = true;
  const std::uint64_t value =
      folded({item.level, item.node}, virtual_workers_,
             [&](coord::Node one) -> std::optional<std::uint64_t> {
               if (one.level > 0) return {};
               const WorkerUid owner = members->members[owners.owner(one.index)].uid;
               if (coord::stay_of(owner) != self_) return whole = false, kTorn;
               const auto worker = static_cast<std::uint32_t>(owner.value() & 0xffffffff) - 1;
               const Cell& cell = piece(worker, one.index, item.bucket);
               if (sources != nullptr) sources->push_back(&cell);
               whole = whole && cell.mark == t + 1;
               return cell.value;
             });
  if (!whole) return {};
  return value;
}

std::vector<const Cell*> SimBoard::sources(const Item& item) const {
  if (item.kind != Kind::kNode) return {&cell(item)};
  std::vector<const Cell*> all;
  (void)folded_here(item, &all);
  return all;
}

std::uint64_t SimBoard::mark(const Item& item) const {
  if (item.kind == Kind::kNode && item.host == self_.host)
    return folded_here(item) ? item.txn.value() + 1 : 0;
  return cell(item).mark;
}

std::uint64_t SimBoard::value(const Item& item) const {
  if (item.kind == Kind::kNode && item.host == self_.host) return folded_here(item).value_or(kTorn);
  const Cell& one = cell(item);
  return one.mark == item.txn.value() + 1 ? one.value : kTorn;
}

const coord::Table* SimBoard::table(std::uint64_t txn) const {
  return cell(link::table_of(txn)).mark == txn + 1 ? &table_[txn % tables_] : nullptr;
}

const coord::Ownership& SimBoard::ownership(std::uint64_t txn) const {
  Owned& owned = owned_[txn % owned_.size()];
  if (!owned.ownership || owned.txn != txn || owned.deaths != deaths_.size())
    owned = {txn, deaths_.size(),
             std::make_unique<coord::Ownership>(*table(txn), plan_.contents(txn).shares(), self_,
                                                deaths_)};
  return *owned.ownership;
}

void SimBoard::set_table(const coord::Table& table, std::uint64_t value) {
  table_[table.txn.value() % tables_] = table;
  newest_table_ = std::max(newest_table_, table.txn.value());
  set_mark(link::table_of(table.txn.value()), value);
}

void SimBoard::set_mark(const Item& item, std::uint64_t value) {
  cell(item) = {item.txn.value() + 1, value, false};
  advance();
  touch();
}

void SimBoard::set_ready(const Item& ready, std::uint64_t uid) {
  std::erase_if(newcomers_,
                [&](const Item& old) { return link::place_of(old) == link::place_of(ready); });
  newcomers_.push_back(ready);
  set_mark(ready, uid);
}

void SimBoard::advance() {
  for (;; ++lowest_) {
    const link::Contents& contents = plan_.contents(lowest_);
    bool whole = contents.shares() > 0 && link::has(*this, link::table_of(lowest_ + 1));
    if (whole)
      contents.for_each(lowest_,
                        [&](const Item& item) { whole = whole && link::has(*this, item); });
    if (!whole) return;
  }
}

void SimBoard::begin_at(std::uint64_t txn) {
  first_ = txn;
  lowest_ = txn == link::kNever ? 0 : std::max(lowest_, txn);
  if (txn != link::kNever) advance();
  touch();
}

void SimBoard::append(WorkerUid death) {
  const bool host = death == coord::death_of(coord::stay_of(death));
  const auto worker = std::ranges::find_if(
      deaths_, [](WorkerUid one) { return one != coord::death_of(coord::stay_of(one)); });
  deaths_.insert(two_lists_ && host ? worker : deaths_.end(), death);
  touch();
}

}  // namespace lockstep::simulation
