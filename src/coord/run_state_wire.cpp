// A run's state as bytes. What would be too long for a frame is cut: texts of the dead, and of
// these the oldest.
#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "coord/board.h"
#include "coord/keeper_fields.h"

namespace lockstep::coord {
namespace {

constexpr std::size_t kMostCause = 128, kMostLastWords = 256, kMostVictims = 1024;

// What is kept in order, as a list.
template <class All>
void ordered(WireWriter& io, const All& all, auto one) {
  io(static_cast<std::uint32_t>(all.size()));
  for (const auto& each : all) one(io, each);
}
template <class Each, class All>
void read_ordered(WireReader& io, All& all, auto one) {
  std::vector<Each> list;
  io.list(list, one);
  for (std::size_t i = 1; i < list.size(); ++i)
    if (!(list[i - 1] < list[i])) return io.fail("a list is out of order");
  all = All(list.begin(), list.end());
}

using Charge = std::pair<std::uint64_t, std::string>;
void errors(WireWriter& io, const std::set<Charge>& all) {
  ordered(io, all, [](auto& of, auto& one) { of(one.first), of(one.second); });
}
void errors(WireReader& io, std::set<Charge>& all) {
  read_ordered<Charge>(io, all, [](auto& of, auto& one) {
    of(one.first), text(of, one.second, RestartBudget::kMostError);
  });
}

using Count = std::pair<std::pair<Txn, std::uint32_t>, int>;
void crashes(WireWriter& io, const CrashLedger::Counts& all) {
  ordered(io, all,
          [](auto& of, auto& one) { of(one.first.first), of(one.first.second), of(one.second); });
}
void crashes(WireReader& io, CrashLedger::Counts& all) {
  read_ordered<Count>(io, all, [](auto& of, auto& one) {
    upto(of, one.first.first, kMaxTxn), upto(of, one.first.second, kMaxItems);
    upto(of, one.second, kMaxDead);
  });
}

void charges(WireWriter& io, const std::deque<std::uint64_t>& all) {
  ordered(io, all, [](auto& of, auto& one) { of(one); });
}
void charges(WireReader& io, std::deque<std::uint64_t>& all) {
  std::vector<std::uint64_t> list;
  io.list(list, [](auto& of, auto& one) { upto(of, one, kMaxTxn); });
  all.assign(list.begin(), list.end());
}

template <Is<HostState> M>
void fields(auto& io, M& m) {
  upto(io, m.begun, kMost);
  io.list(m.ranks, [](auto& of, auto& uid) { of(uid); });
  upto(io, m.stop_known, kMost), io(m.finished), io(m.cannot_grow), io(m.was_member);
  upto(io, m.dead_applied, kMaxTxn), io(m.off_tables), io(m.comes), io(m.has_come);
}
template <Is<GivenOrder> M>
void fields(auto& io, M& m) {
  upto(io, m.number, kMost), any_order(io, m.order), in_rows(io, m.to);
}
template <Is<Victim> M>
void fields(auto& io, M& m) {
  io(m.uid), upto(io, m.rank, kMaxMembers), text(io, m.cause, kMostCause);
  text(io, m.error, kMostLastWords), io(m.ended_well);
}
template <Is<IncidentPhases> M>
void fields(auto& io, M& m) {
  for (auto* phase :
       {&m.death, &m.noticed, &m.aborted, &m.regrouped, &m.resumed, &m.committed, &m.rejoined})
    upto(io, *phase, kMost);
}
template <Is<IncidentBook::Entry> M>
void fields(auto& io, M& m) {
  upto(io, m.report.number, kMost), upto(io, m.report.rung, 4);
  io.list(m.report.victims, [](auto& of, auto& one) { fields(of, one); });
  upto(io, m.report.txn, kMaxTxn), fields(io, m.report.phases);
  io(m.replaced), io(m.from_outside), io(m.committed), upto(io, m.last_victim, kMost);
}
template <Is<RunState> M>
void fields(auto& io, M& m) {
  fields(io, m.facts), upto(io, m.now, kMost);
  const auto each = [](auto& of, auto& one) { fields(of, one); };
  io.list(m.hosts, each), upto(io, m.ordered, kMost), io.list(m.orders, each);
  io(m.program), io(m.server), io.maybe(m.proposal, [](auto& of, auto& one) { wish(of, one); });
  upto(io, m.generation, kMost), upto(io, m.began_at, kMost), io(m.scaled_from);
  upto(io, m.first, kMaxTxn), upto(io, m.applied, kMaxTxn), upto(io, m.furthest, kMaxTxn);
  upto(io, m.clock.time.ran, kMost), upto(io, m.clock.time.limit, kMost);
  upto(io, m.clock.time.stop_after_step, kMost), io(m.clock.runs), io(m.clock.up);
  crashes(io, m.crashes), io(m.hopeless);
  upto(io, m.incidents.count, kMost), io.list(m.incidents.open, each);
  charges(io, m.replacements);
  upto(io, m.restarts.restarts, kMaxDead), upto(io, m.restarts.without_progress, kMaxDead);
  upto(io, m.restarts.furthest, kMaxTxn), errors(io, m.restarts.errors), io(m.own_doing_at);
}

RunState cut(const RunState& state) {
  RunState less = state;
  auto& open = less.incidents.open;
  std::size_t victims = 0;
  std::for_each(open.rbegin(), open.rend(), [&](auto& entry) {
    std::vector<Victim>& of = entry.report.victims;
    const std::size_t most = std::max<std::size_t>(kMostVictims - victims, 1);
    if (of.size() > most) of.erase(of.begin(), of.end() - static_cast<std::ptrdiff_t>(most));
    victims = std::min(kMostVictims, victims + of.size());
  });
  return less;
}

// What is wrong with it; "": nothing.
std::string fault_of(const RunState& state) {
  const std::size_t count = state.facts.hosts.size();
  if (count == 0 || count > kMaxHosts || state.hosts.size() != count)
    return "it is of " + std::to_string(count) + " hosts";
  for (std::size_t h = 0; h < count; ++h)
    if (state.facts.hosts[h].stay.host != h) return "it has a host in another's place";
  if (state.server.value_or(0) >= count) return "none of its hosts serves newcomers";
  std::uint64_t last = 0;
  for (const GivenOrder& given : state.orders) {
    if (given.number <= std::exchange(last, given.number) || last > state.ordered)
      return "order " + std::to_string(last) + " is not in its place";
    const bool in_order =
        std::ranges::adjacent_find(given.to, std::greater_equal<>()) == given.to.end();
    if (given.to.empty() || given.to.back() >= count || !in_order) return "an order is to nobody";
  }
  return "";
}

}  // namespace

std::string encode(const RunState& state) {
  WireWriter io;
  const RunState less = cut(state);
  fields(io, less);
  return io.take();
}

Result<RunState> decode_run_state(std::string_view bytes) {
  LOCKSTEP_ASSIGN(RunState state,
                  read_whole<RunState>(bytes, "the run's state",
                                       [](auto& io, auto& what) { fields(io, what); }));
  if (const std::string fault = fault_of(state); !fault.empty())
    return bad_data("the run's state: " + fault);
  return state;
}

std::string encode(const Order& order) {
  WireWriter io;
  any_order(io, order);
  return io.take();
}

}  // namespace lockstep::coord
