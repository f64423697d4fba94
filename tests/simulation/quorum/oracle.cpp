// The invariants that each event is checked against.
#include <algorithm>

#include "agents.h"

namespace lockstep::simulation {

using quorum::Facts;
using quorum::Role;
using quorum::Set;

bool Agents::is_quorum(const Set& set, const Members& who) const {
  const auto file = files_.find(set.id);
  const bool has = file != files_.end() && who.contains(file->second);
  return quorum::is_quorum(set, who, {.by_file = weather_.by_file, .file = has ? set.id : 0});
}

void Agents::look(std::size_t index) {
  Host& host = agents_[index];
  const quorum::Agent& agent = *host.agent;
  const bool hears = agent.hears_leader(now_of(host));
  if (hears) host.alone_since = 0;
  if (!hears && host.alone_since == 0) host.alone_since = clock_.now();
  look_at_leader(index);
  look_at_workers(index);
  look_at_run(agent);
  const Facts& facts = agent.facts();
  if (facts == host.before) return;
  note([&] { return name(agent.self()) + " has " + text(facts); });
  if (facts.set) {
    const auto& [at, added] = in_force_.emplace(std::pair(facts.history, facts.changes), facts.set);
    require(at->second.id == facts.set.id, "I-S: set " + std::to_string(facts.changes) +
                                               " in force is " + names(at->second.members) +
                                               " and " + names(facts.set.members));
    if (added && !first_) first_ = facts.set;
    if (added) see("changes in force");
    std::set<std::uint16_t> hosts;
    for (const Member& one : facts.set.members)
      require(hosts.insert(one.host).second, "I-R: a host is twice in " + names(facts.set.members));
    require(facts.history != host.before.history || facts.changes >= host.before.changes,
            "I-S: what was in force is not any more, at " + name(agent.self()));
    const std::string incidents = std::to_string(facts.changes + (facts.change ? 1 : 0));
    const std::string counted = facts.run.substr(0, facts.run.find(' '));
    require(counted.empty() || facts.changes < 2 || counted == incidents ||
                counted == std::to_string(facts.changes),
            "E6: " + counted + " incidents, " + incidents + " changes");
  }
  host.before = facts;
}

// Leaders of one term; leaders that have a quorum at one time.
void Agents::look_at_leader(std::size_t index) {
  const Host& host = agents_[index];
  const quorum::Agent& agent = *host.agent;
  if (agent.role() != Role::kLeads || !agent.facts().set) return;
  const auto& [at, added] =
      leaders_.emplace(std::pair(agent.facts().history, agent.term()), agent.self());
  if (added) {
    see("leaders");
    if (agent.facts().change) see("winners that found a change");
    if (agent.facts().final && agent.facts().stamp.seq == 0) see("finals that a winner found");
    note([&] { return name(agent.self()) + " LEADS term " + std::to_string(agent.term()); });
  }
  require(at->second == agent.self(), "I-T: two leaders in term " + std::to_string(agent.term()) +
                                          ", " + name(at->second) + " and " + name(agent.self()));
  if (!agent.leads(now_of(host))) return;
  for (std::size_t other = 0; other < agents_.size(); ++other) {
    const Host& one = agents_[other];
    if (other == index || !one.alive || one.paused || one.stood_still_until > clock_.now() ||
        host.stood_still_until > clock_.now() || !one.agent->leads(now_of(one)))
      continue;
    const Set &a = agent.facts().set, &b = one.agent->facts().set;
    if (!b) continue;
    const bool meet = agent.facts().history == one.agent->facts().history &&
                      std::ranges::any_of(a.members, [&b](const Member& m) { return b.has(m); });
    require(meet, "I-D: " + name(agent.self()) + " leads " + names(a.members) + ", " +
                      name(one.agent->self()) + " leads " + names(b.members));
  }
}

// What is in force stays, whoever leads, and what follows is written behind it.
void Agents::look_at_run(const quorum::Agent& agent) {
  const Facts& facts = agent.facts();
  if (!facts.set || agent.in_force() != facts.stamp) return;
  std::string& written = written_[facts.history];
  const std::string writes = writes_of(facts.run);
  require(writes.starts_with(written) || written.starts_with(writes),
          "I-F: in force are the writes" + written + " and" + writes + ", as " +
              name(agent.self()) + " knows");
  if (writes.size() <= written.size()) return;
  written = writes;
  see("writes in force");
}

// Workers of two attempts never run at one time, but on a host that was paused.
void Agents::look_at_workers(std::size_t index) {
  const Host& host = agents_[index];
  if (host.workers == Stamp{} || host.workers == host.before.attempt) return;
  for (std::size_t other = 0; other < agents_.size(); ++other) {
    Host& one = agents_[other];
    if (other == index || !one.alive || one.paused || one.workers == Stamp{}) continue;
    one.agent->pass(now_of(one));  // its timer is exact
    run_workers(one);
    if (one.stood_still_until > clock_.now() || host.stood_still_until > clock_.now()) continue;
    require(one.workers == Stamp{} || one.workers == host.workers,
            "I-G: workers of two attempts, on " + name(host.agent->self()) + " and " +
                name(one.agent->self()));
  }
}

// If those that live are a quorum of all that may be in force, as any of them knows, the run goes
// on: a leader comes, and the end is said.
void Agents::expect() {
  ending_ = true;
  Members there;
  const Facts* newest = nullptr;
  for (const Host& host : agents_) {
    if (!host.alive || host.agent->ending() || host.agent->is_out()) continue;
    const Facts& facts = host.agent->facts();
    if (!facts.set) continue;
    if (newest == nullptr || quorum::is_newer(facts, *newest)) newest = &facts;
    const bool soon_ends =
        host.alone_since != 0 && clock_.now() - host.alone_since > settings_.silence * 3 / 2;
    if (!soon_ends) there.insert(host.agent->self());
  }
  if (newest == nullptr) return see("ends before a set");
  const auto enough = [&](const Set& set) { return !set || is_quorum(set, there); };
  bool all = enough(newest->set) && enough(newest->change);
  for (const auto& [number, set] : in_force_)
    if (number.first == newest->history && number.second > newest->changes)
      all = all && enough(set);
  if (!all) return see("no quorum is left");
  if (newest->final && newest->final->known) return;
  for (const Member& member : newest->set.members)
    if (there.contains(member) && (!newest->change || newest->change.has(member)))
      expected_.insert(member);
}

void Agents::check_end() {
  for (const Host& host : agents_) {
    if (!expected_.contains(host.agent->self())) continue;
    const std::string who = name(host.agent->self());
    const bool out = host.ended && host.ended->why == quorum::Ending::kTakenOut;
    require(host.ended.has_value(),
            "I-V: no end comes to " + who + ", which has " + text(host.agent->facts()));
    require(out || host.ended->why == quorum::Ending::kFinal,
            "I-W: " + who + ", alive and connected, ends with " + std::to_string(host.ended->code));
  }
  if (!expected_.empty()) see("ends awaited");
}

}  // namespace lockstep::simulation
