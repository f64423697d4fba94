// The invariants that each step is checked against.
#include <algorithm>

#include "hosts.h"

namespace lockstep::simulation {

std::string Hosts::name(const Item& item) const {
  std::string text = link::kKindNames[static_cast<std::size_t>(item.kind)];
  text += "(t" + std::to_string(item.txn.value());
  if (item.kind == Kind::kReady) text += ", host " + std::to_string(item.host);
  if (item.kind == Kind::kNode)
    text += ", host " + std::to_string(item.host) + ", node " + std::to_string(item.level) + "/" +
            std::to_string(item.node);
  if (item.kind == Kind::kNode || item.kind == Kind::kChunk)
    text += ", bucket " + std::to_string(item.bucket);
  if (item.kind != Kind::kTable) text += ", " + std::to_string(item.index);
  return text + ")";
}

bool Hosts::counts(std::size_t host) const {
  return hosts_[host].alive && !outside(host) && link::contains(in_force_, hosts_[host].stay.host);
}

// I5, I6.
void Hosts::begin_write(std::size_t host, const Item& item, const std::string& who) {
  SimBoard& board = *hosts_[host].board;
  Cell& cell = board.cell(item);
  require(!cell.writing, "I5: " + who + " begins to write " + name(item) + " on host " +
                             std::to_string(host) + ", where somebody writes");
  require(cell.mark <= item.txn.value(),
          "I5: " + who + " writes over " + name(item) + " on host " + std::to_string(host));
  check_overwrite(host, item);
  cell.value = kTorn;
  cell.writing = true;
}

// Nobody may still need what is there. Sums that read nodes, and sends, look by themselves.
void Hosts::check_overwrite(std::size_t host, const Item& item) const {
  const SimBoard& board = *hosts_[host].board;
  const std::uint64_t old = board.cell(item).mark;
  if (link::is_of_host(item.kind) || old == 0) return;
  // A table is read until its transaction has been applied, as the others are.
  for (const Worker& worker : workers_) {
    if (!worker.alive || worker.txn >= old || !counts(worker.host)) continue;
    // Nobody waits for a newcomer before the first table that lists it.
    const coord::Table* later = board.table(old);
    if (worker.comes && (later == nullptr || !later->has(worker.uid))) continue;
    if (worker.host != host &&
        coord::is_dead(board.deaths(), coord::death_of(hosts_[worker.host].stay)))
      continue;
    require(false, "I6: " + name(item) + " is written over that of t" + std::to_string(old - 1) +
                       " on host " + std::to_string(host) + ", which a worker of host " +
                       std::to_string(worker.host) + " has not applied");
  }
}

void Hosts::end_write(std::size_t host, const Item& item, std::uint64_t value,
                      const coord::Table* table) {
  SimBoard& board = *hosts_[host].board;
  require(board.cell(item).mark <= item.txn.value(),
          "I5: " + name(item) + " is written over on host " + std::to_string(host));
  if (table != nullptr)
    board.set_table(*table, value);
  else
    board.set_mark(item, value);
  check_value(host, item);
}

// I1, I4.
void Hosts::check_value(std::size_t host, const Item& item) const {
  if (item.kind == Kind::kNode || outside(host))
    return;  // half overwritten ones may come, and are not summed
  const std::uint64_t value = hosts_[host].board->cell(item).value;
  require(value != kTorn,
          "I1: a torn " + name(item) + " is marked on host " + std::to_string(host));
  if (const auto expected = reference_.value(item))
    return require(value == *expected,
                   "I1: " + name(item) + " is wrong on host " + std::to_string(host));
  // A newcomer that has begun anew keeps what came before, and neither tells nor reads it.
  const auto has_any = [&](std::size_t one) {
    return counts(one) && item.txn.value() >= hosts_[one].board->first();
  };
  if (!has_any(host)) return;
  for (std::size_t other = 0; other < hosts_.size(); ++other) {
    if (other == host || !has_any(other)) continue;
    const Cell& cell = hosts_[other].board->cell(item);
    // What a newcomer says next may be landing there, or have broken off.
    const bool is_over = item.kind == Kind::kReady && (cell.writing || cell.value == kTorn);
    require(cell.mark != item.txn.value() + 1 || cell.value == value || is_over,
            (item.kind == Kind::kTable ? "I4: " : "I1: ") + name(item) + " differs on hosts " +
                std::to_string(host) + " and " + std::to_string(other));
  }
}

// All boards append hosts in one order.
void Hosts::check_order() const {
  std::vector<std::vector<WorkerUid>> lists;
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    if (!counts(host)) continue;
    std::vector<WorkerUid>& list = lists.emplace_back();
    for (const WorkerUid death : hosts_[host].board->deaths())
      if (death == coord::death_of(coord::stay_of(death))) list.push_back(death);
  }
  for (const auto& a : lists)
    for (const auto& b : lists)
      require(std::equal(a.begin(),
                         a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())),
                         b.begin()),
              "LIST: two boards have the dead hosts in different orders");
}

}  // namespace lockstep::simulation
