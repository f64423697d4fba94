// What has to hold.
#include <algorithm>

#include "run.h"

namespace lockstep::simulation {

using coord::Standing;

// A table's members stand host by host, in the hosts' order, and each transaction has one table on
// all boards that count.
void Run::check_table(const Board& board, const Table& table) {
  for (const auto& host : hosts) {
    const Table* other = host->board->table(table.txn.value());
    if (other == nullptr || host->is_lost || host->board->attempt != board.attempt ||
        out_.contains(host->board->stay))
      continue;
    require(other->members == table.members && other->hosts == table.hosts &&
                other->flags == table.flags,
            "two tables of transaction " + std::to_string(table.txn.value()));
  }
  const Table* before = table.txn == Txn(0) ? nullptr : board.table(table.txn.value() - 1);
  require(before == nullptr || before->generation <= table.generation, "a proposal goes back");
  if (before != nullptr) check_ranks(*before, table);
  std::vector<Stay> stays;
  std::set<WorkerUid> ranked;
  for (const coord::Member& member : table.members) {
    require(ranked.insert(member.uid).second, "a worker has two ranks");
    const Stay stay = coord::stay_of(member.uid);
    if (stays.empty() || stays.back() != stay) stays.push_back(stay);
  }
  require(!table.members.empty(), "a table of nobody");
  if (hosts.size() == 1) return require(table.hosts.empty(), "the only host is named");
  std::vector<Stay> named;
  for (const coord::Host& host : table.hosts) {
    named.push_back(host.stay);
    if (before == nullptr) come_.insert(host.stay);
    require(come_.contains(host.stay), "a host is listed, and not all know of it");
    require(host.workers > 0, "a host of no workers");
  }
  require(stays == named, "members are not host by host");
  require(std::is_sorted(stays.begin(), stays.end()), "hosts are out of order");
}

// Who stays keeps its place among those that stay; but for those that were to leave, and are kept.
void Run::check_ranks(const Table& before, const Table& table) const {
  const auto common = [this](const Table& one, const Table& other) {
    std::vector<WorkerUid> found;
    for (const coord::Member& member : one.members)
      if (other.has(member.uid) && !kept_.contains(member.uid)) found.push_back(member.uid);
    return found;
  };
  require(common(before, table) == common(table, before), "members change their places");
}

void Run::check_return(const Board& old) const {
  require(going_.empty(), "a board gives way in the middle of a round");
  for (const auto& host : hosts)
    for (const auto& [txn, table] : host->board->tables)
      require(host->board->attempt != old.attempt || out_.contains(old.stay) ||
                  std::ranges::none_of(table.hosts,
                                       [&](const auto& one) { return one.stay == old.stay; }),
              "a host comes back while it is being taken out");
}

void Run::check_facts() const {
  std::uint32_t all = 0;
  for (const coord::HostFacts& host : facts().hosts) {
    require(host.target <= host.wanted, "a host has more workers than were asked for");
    require(host.standing != Standing::kOut || host.target == 0, "a lost host is to have workers");
    all += host.target;
  }
  require(facts().virtual_workers == 0 || all <= facts().virtual_workers, "too many workers");
}

// One for each incident, and one for each try that came to nothing. Who leaves may have been asked
// to stay, too late.
void Run::check_charges() const {
  int happened = deaths_;
  for (const char* what : {"failed spawns", "crashes in a share", "leavers"})
    if (const auto found = outcome_.seen.find(what); found != outcome_.seen.end())
      happened += found->second;
  const auto charged = static_cast<int>(known_.replacements.size());
  require(charged <= happened, "more is charged than has happened");
  require(charged <= config.max_replacements, "more is charged than there is");
}

// Whoever leads: what has been counted stays counted.
void Run::check_history(const coord::RunState& state) const {
  const auto grows = [](const auto& before, const auto& after, const char* what) {
    require(before <= after, std::string(what) + " goes back");
  };
  grows(known_.replacements.size(), state.replacements.size(), "what replacements have cost");
  grows(known_.restarts.restarts, state.restarts.restarts, "the count of restarts");
  grows(known_.restarts.errors.size(), state.restarts.errors.size(), "what restarts are known by");
  grows(known_.incidents.count, state.incidents.count, "the number of incidents");
  grows(known_.ordered, state.ordered, "the count of orders");
  grows(known_.generation, state.generation, "the generation");
  grows(known_.clock.time.ran, state.clock.time.ran, "the run's time");
  grows(known_.facts.restarts, state.facts.restarts, "the attempt");
  check_orders(state);
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    grows(known_.facts.hosts[h].heard, state.facts.hosts[h].heard, "what is heard of a host");
  }
}

// None is dropped that somebody has to obey.
void Run::check_orders(const coord::RunState& state) const {
  for (const coord::GivenOrder& given : known_.orders) {
    if (std::ranges::find(state.orders, given.number, &coord::GivenOrder::number) !=
        state.orders.end())
      continue;
    for (const coord::HostIndex host : given.to)
      require(state.facts.hosts[host].standing == Standing::kOut || hosts[host]->is_lost ||
                  hosts[host]->obeyed() >= given.number,
              "an order is forgotten that a host has not obeyed");
  }
}

void Run::check_end(int code) {
  for (const auto& host : hosts)
    for (const auto& worker : host->alive())  // a late fork of one that was given up is killed
      require(host->is_lost || worker->life == SimWorker::Life::kBooting,
              "the run ends while a worker lives");
  require(code != 2 && code != 65, "nobody did anything wrong, but the run says so");
  const bool all_well = faults_ == 0 && !bad_share;
  require(!all_well || code == 0, "an undisturbed run ends with " + std::to_string(code));
  if (code != 0) return;
  std::uint64_t furthest = 0;
  for (const auto& host : hosts) furthest = std::max(furthest, host->checkpoint);
  const bool limited = std::ranges::any_of(
      hosts, [&](const auto& host) { return host->stop_file != 0 && host->stop_file <= furthest; });
  require(stopped_ || limited || furthest == shape.transactions, "the run ends before its end");
  see("good ends");
}

std::string Run::picture() const {
  std::string text = "; group " + std::to_string(static_cast<int>(facts().group));
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    const SimHost& host = *hosts[h];
    text += "\n  host " + std::to_string(h) + (host.is_lost ? " (lost)" : "") + ": standing " +
            std::to_string(static_cast<int>(facts().hosts[h].standing)) + ", target " +
            std::to_string(facts().hosts[h].target) + ", stay " +
            std::to_string(host.board->stay.count) + ", dead " +
            std::to_string(host.board->dead.size());
    if (!host.board->tables.empty())
      text += ", table " + std::to_string(host.board->tables.rbegin()->first);
    for (const auto& worker : host.alive())
      text += "; " + std::to_string(worker->uid.value() & 0xffffffff) + " life " +
              std::to_string(static_cast<int>(worker->life)) + " txn " +
              std::to_string(worker->txn) + (worker->hung ? " hung" : "") + " phase " +
              std::to_string(static_cast<int>(worker->seen.phase));
  }
  return text;
}

}  // namespace lockstep::simulation
