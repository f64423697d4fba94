// Another agent's keeper goes on where this one is lost.
#include <algorithm>

#include "coord/run_keeper.h"

namespace lockstep::coord {
namespace {

// What was so at `from` by another clock, and is at `to` by this one.
void move(std::uint64_t& stamp, std::uint64_t from, std::uint64_t to) {
  if (stamp != 0) stamp = stamp + to > from ? stamp + to - from : 1;
}

void move(IncidentBook::Pages& pages, std::uint64_t from, std::uint64_t to) {
  for (IncidentBook::Entry& entry : pages.open) {
    IncidentPhases& phases = entry.report.phases;
    for (std::uint64_t* stamp :
         {&phases.death, &phases.noticed, &phases.aborted, &phases.regrouped, &phases.resumed,
          &phases.committed, &phases.rejoined, &entry.last_victim})
      move(*stamp, from, to);
  }
}

}  // namespace

RunState RunKeeper::state() const {
  RunState state{.facts = facts_, .now = turn_.now};
  for (std::size_t h = 0; h < hosts_.size(); ++h) state.hosts.push_back(hosts_[h]);
  state.ordered = ordered_;
  state.program = program_;
  state.server = server_;
  state.proposal = proposal_;
  state.generation = generation_;
  state.began_at = began_at_;
  state.scaled_from = scaled_from_;
  state.first = first_txn_;
  state.applied = applied_;
  state.furthest = furthest_;
  state.clock = clock_.known(turn_.now);
  state.crashes = crashes_.counts();
  state.hopeless = hopeless_;
  state.incidents = incidents_.pages();
  state.replacements = replacements_.charges();
  state.restarts = restarts_.all_used();
  state.own_doing_at = own_doing_at_;
  return state;
}

void RunKeeper::take_over(const RunState& state, std::uint64_t as_of) {
  facts_ = state.facts;
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    static_cast<HostState&>(hosts_[h]) = state.hosts[h];
    hosts_[h].applied = hosts_[h].dead_applied;
  }
  ordered_ = state.ordered;
  for (const GivenOrder& given : state.orders)
    for (const HostIndex host : given.to) hosts_[host].ordered = given.number;
  program_ = state.program;
  server_ = state.server;
  proposal_ = state.proposal;
  generation_ = state.generation;
  began_at_ = state.began_at;
  move(began_at_, state.now, as_of);
  scaled_from_ = state.scaled_from;
  first_txn_ = state.first;
  applied_ = state.applied;
  furthest_ = state.furthest;
  clock_.go_on(state.clock, as_of);
  crashes_.go_on(state.crashes);
  hopeless_ = state.hopeless;
  IncidentBook::Pages incidents = state.incidents;
  move(incidents, state.now, as_of);
  incidents_.go_on(std::move(incidents));
  replacements_.go_on(state.replacements);
  restarts_.go_on(state.restarts);
  own_doing_at_ = state.own_doing_at;
  policy_told_ = facts_.group != Group::kStarting || facts_.restarts > 0;
}

// What the one before may have begun: its incidents are recorded here, too, and rounds take out
// whoever is on the way out, and bring whoever comes.
void RunKeeper::go_on() {
  for (const IncidentBook::Entry& entry : incidents_.pages().open)
    turn_.act(action::RecordIncident{entry.report}, "another agent leads");
  for (const HostFacts& host : facts_.hosts)
    if (goes(host.stay) && take_out_) take_out_(host.stay, host.standing == Standing::kOut);
  for (const HostFacts& host : facts_.hosts)
    if (comes(host.stay) && bring_) bring_(host.stay);
}

}  // namespace lockstep::coord
