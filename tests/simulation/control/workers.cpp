// Workers and boards, as far as the control plane sees them.
#include <algorithm>
#include <utility>

#include "coord/next_table.h"
#include "host.h"

namespace lockstep::simulation {

namespace action = coord::action;
namespace event = coord::event;

namespace {

constexpr std::uint64_t kStep = 400 * kMillisecond;

}  // namespace

void ControlCluster::feed(Host& host, const coord::Event& event) {
  turn(host, [&](coord::Coordinator& it) { return it.handle(event, clock_.now()); });
}

void ControlCluster::turn(Host& host,
                          const std::function<coord::Actions(coord::Coordinator&)>& what) {
  timed(host, [&] {
    require(!std::exchange(host.in_turn, true), "a turn within a turn");
    const coord::Actions actions = what(*host.coordinator);
    host.in_turn = false;
    obey(host, actions);
  });
  serve(host);
}

event::Progress ControlCluster::observe(const Host& host) const {
  event::Progress report;
  for (const auto& [uid, seen] : host.workers) report.workers.push_back(seen);
  if (host.applied + 1 < boards_.txn) return report;
  for (const auto& [txn, table] : boards_.tables)
    if (txn + coord::kTables > boards_.tables.rbegin()->first) report.tables.push_back(table);
  return report;
}

void ControlCluster::obey(Host& host, const coord::Actions& actions) {
  for (const coord::Action& each : actions) {
    if (const auto* spawn = std::get_if<action::Spawn>(&each.what)) start(host, *spawn);
    if (const auto* stop = std::get_if<action::Stop>(&each.what))
      require(false, "the run ends with " + std::to_string(stop->exit_code) + ": " + each.reason);
    if (const auto* dead = std::get_if<action::AppendDead>(&each.what))
      host.board->append(dead->uid);
    if (const auto* wish = std::get_if<action::WriteProposal>(&each.what))
      host.board->proposal = wish->wish;
    if (const auto* admit = std::get_if<action::Admit>(&each.what))
      clock_.after(5 * kMillisecond, [this, &host, uid = admit->uid] {
        feed(host, event::Ready{uid, Txn(0), 1, {}, false});
      });
    const auto* first = std::get_if<action::WriteTable>(&each.what);
    if (first == nullptr || !first->here) continue;
    boards_.tables[first->table.txn.value()] = first->table;
    boards_.begin(first->table.txn.value(), {});
    clock_.after(kStep, [this] { step(); });
  }
}

void ControlCluster::start(Host& host, const action::Spawn& spawn) {
  clock_.after(5 * kMillisecond, [this, &host, uid = spawn.uid] {
    host.workers[uid].uid = uid;
    feed(host, event::Forked{uid, 1});
    feed(host, event::Hello{uid});
    feed(host, event::Described{uid, boards_.plan.contents(0).records, true, std::nullopt});
  });
}

// All shares of a transaction that are not of the dead have been computed; those are once all
// have appended whom they are of.
void ControlCluster::step() {
  const coord::Table& table = boards_.tables.at(boards_.txn);
  const auto is_over = [&](const auto& host) {
    return !host->is_alive || std::ranges::all_of(table.hosts, [&](const coord::Host& one) {
      return !boards_.dead.contains(one.stay) || host->board->is_at(one.stay);
    });
  };
  if (!std::ranges::all_of(hosts_, is_over))
    return clock_.after(2 * kMillisecond, [this] { step(); });
  const auto publisher = std::ranges::find_if(hosts_, [&](const auto& host) {
    return host->is_alive && boards_.lists({static_cast<std::uint16_t>(host->index), 1});
  });
  const auto deaths = (*publisher)->board->deaths();
  const coord::Table next = coord::next_table(
      {.today = table, .wish = (*publisher)->board->proposal, .dead = deaths, .ready = {}});
  boards_.tables[next.txn.value()] = next;
  if (boards_.tables.size() > coord::kTables) boards_.tables.erase(boards_.tables.begin());
  boards_.begin(next.txn.value(), {deaths.begin(), deaths.end()});
  look_at_boards();
  clock_.after(kStep, [this] { step(); });
}

// Each agent does so within some milliseconds.
void ControlCluster::look_at_boards() {
  for (const auto& each : hosts_)
    clock_.after(random_.between(1, 20) * kMillisecond,
                 [this, host = each.get(), txn = boards_.txn] {
                   if (!host->is_alive || host->workers.empty()) return;
                   host->applied = txn;
                   for (auto& [uid, seen] : host->workers) {
                     seen.applied = txn;
                     seen.current_txn = Txn(txn);
                     ++seen.progress;
                   }
                   timed(*host, [&] {
                     feed(*host, observe(*host));
                     if (host->leader) host->talk->look(host->coordinator->view());
                   });
                 });
}

}  // namespace lockstep::simulation
