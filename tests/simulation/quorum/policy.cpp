// What a host does beside its agent, and what that one decides when it leads.
#include <algorithm>
#include <utility>

#include "agents.h"

namespace lockstep::simulation {

using quorum::Agent;
using quorum::Facts;
using quorum::Role;

void Agents::serve(std::size_t index) {
  Host& host = agents_[index];
  run_workers(host);
  look(index);
  if (host.agent->ending()) return finish(index);
  carry_out(index);
  if (const auto wanted = host.agent->wanted_file(now_of(host))) ask_file(index, *wanted);
  const auto says =
      std::tuple(host.agent->term(), host.agent->role(), host.agent->vote(), host.agent->leader(),
                 host.agent->facts().stamp, host.agent->in_force());
  if (std::exchange(host.said, says) == says) return;
  note([&] { return name(host.agent->self()) + standing(host); });
  tell(index);
}

// Links close, plain workers are killed; that takes a moment.
void Agents::carry_out(std::size_t index) {
  Host& host = agents_[index];
  const Stamp stamp = host.agent->facts().stamp;
  if (host.agent->acknowledged() == stamp || host.carrying_out == stamp) return;
  host.carrying_out = stamp;
  const bool soon = random_.chance(weather_.slow && !calm_ ? 0.4 : 0.9);
  const std::uint64_t takes = random_.between(0, soon ? 20 : weather_.slow ? 4000 : 900);
  clock_.after(takes * kMillisecond, [this, index, stamp] {
    Host& again = agents_[index];
    if (!again.alive || again.paused) {
      again.carrying_out = {};
      return;
    }
    again.agent->acknowledge(stamp, now_of(again));
    serve(index);
    if (again.alive) tell(index);
  });
}

void Agents::run_workers(Host& host) {
  const Stamp due = host.agent->attempt();
  if (host.workers == due) return;
  const bool stay = weather_.blunder == Blunder::kWorkersStay ||
                    (weather_.blunder == Blunder::kLeadsOn && host.agent->role() == Role::kLeads);
  if (stay && due == Stamp{} && host.agent->facts().attempt == host.workers) return;
  note([&] {
    return name(host.agent->self()) + (due == Stamp{} ? " kills its workers" : " runs workers");
  });
  if (due == Stamp{} && host.agent->facts().attempt == host.workers) see("fences");
  host.workers = due;
}

void Agents::ask_file(std::size_t index, std::uint64_t id) {
  Host& host = agents_[index];
  if (host.asks_file) return;
  host.asks_file = true;
  see("lock files asked for");
  const std::uint64_t key =
      weather_.blunder == Blunder::kFileBySeq
          ? host.agent->facts().stamp.seq + 100 * host.agent->facts().stamp.term
          : id;
  clock_.after(random_.between(1, 4000) * kMillisecond, [this, index, id, key] {
    const Member self = agents_[index].agent->self();
    const bool has = files_.emplace(key, self).first->second == self;
    note(
        [&] { return name(self) + (has ? " makes the lock file" : " finds the lock file there"); });
    clock_.after(random_.between(1, 1000) * kMillisecond, [this, index, id, has] {
      Host& again = agents_[index];
      again.asks_file = false;
      if (!again.alive || again.paused) return;
      again.agent->file_answered(id, has, now_of(again));
      serve(index);
    });
  });
}

// Behind all that was written before.
void Agents::write(Agent& agent, std::uint64_t now) {
  const Facts& facts = agent.facts();
  if (facts.final || !random_.chance(0.1)) return;
  if (agent.write(facts.run + " " + std::to_string(++writes_), now)) see("writes");
}

bool Agents::decide(Agent& agent, const Members& members, std::uint64_t now) {
  const Facts& facts = agent.facts();
  const std::uint64_t incidents = facts.changes + 1;  // also if it takes the place of one under way
  const std::string run = std::to_string(incidents) + writes_of(facts.run);
  if (!agent.decide(members, run, now)) return false;
  see("changes");
  if (weather_.aimed && random_.chance(0.5))
    clock_.after(random_.between(0, 80) * kMillisecond, [this] { next_weather(); });
  note([&] { return name(agent.self()) + " decides: " + text(agent.facts()); });
  return true;
}

// Its machine has another agent that lives, if only just, and has a set: that one has the port.
bool Agents::has_elder(const Agent& agent) const {
  return std::ranges::any_of(agents_, [&](const Host& one) {
    return one.alive && !one.ended && one.agent.get() != &agent &&
           one.agent->self().host == agent.self().host && one.agent->facts().set;
  });
}

void Agents::lead(std::size_t index) {
  Host& host = agents_[index];
  Agent& agent = *host.agent;
  const std::uint64_t now = now_of(host);
  if (host.agent->self().host == 0 && !agent.facts().set && !has_elder(agent)) {
    Members all = agent.present(now);
    all.insert(agent.self());
    std::set<std::uint16_t> hosts;
    for (const Member& one : all)
      if (one.host < weather_.hosts) hosts.insert(one.host);
    std::erase_if(all, [this](const Member& one) { return one.host >= weather_.hosts; });
    if (hosts.size() == weather_.hosts && all.size() == hosts.size() && agent.form(all, now))
      note([&] { return name(agent.self()) + " makes the first set: " + text(agent.facts()); });
  }
  if (!agent.leads(now) || !agent.facts().set) return serve(index);
  const bool changed = exclude(index, now) || admit(agent, now);
  if (!changed) write(agent, now);
  if (!changed && settings_.plain) {
    if (agent.start_attempt(now)) {
      see("groups started");
      note([&] { return name(agent.self()) + " starts a group: " + text(agent.facts()); });
    } else if (!calm_ && random_.chance(0.01) && agent.end_attempt(now)) {
      note([&] { return name(agent.self()) + " ends the attempt: a worker has died"; });
    }
  }
  const bool over = !settings_.plain || agent.facts().attempt != Stamp{};
  if (ending_ && over &&
      (!calm_ || clock_.now() > calm_at_ + 10 * kSecond || random_.chance(0.1)) &&
      agent.end(static_cast<int>(random_.between(1, 60)), "", now)) {
    see("finals");
    note([&] { return name(agent.self()) + " says the end: " + text(agent.facts()); });
  }
  serve(index);
}

// Also those that had nothing to say to it: a leader may take anybody out at any time.
quorum::Members Agents::silent(const Agent& agent, std::uint64_t now) {
  if (random_.chance(0.5)) return agent.silent(now);
  Members silent;
  for (const Member& member : agent.facts().set.members)
    if (!agent.is_present(member, now)) silent.insert(member);
  return silent;
}

bool Agents::exclude(std::size_t index, std::uint64_t now) {
  Agent& agent = *agents_[index].agent;
  const Facts& facts = agent.facts();
  Members keep(facts.set.members.begin(), facts.set.members.end());
  for (const Member& gone : silent(agent, now)) keep.erase(gone);
  if (!calm_ && weather_.suspicions > 0 && random_.chance(0.03) && keep.size() > 1) {
    --weather_.suspicions;
    keep.erase(facts.set.members[random_.between(0, facts.set.members.size() - 1)]);
    see("false suspicions");
  }
  if (keep.size() == facts.set.members.size()) return false;
  if (decide(agent, keep, now)) return true;
  const auto file = agent.open_file();
  if (file && agent.leads(now)) {
    see("lock files that a leader asks for");
    ask_file(index, *file);
  }
  return false;
}

// Several at once, and in the place of those that are gone.
bool Agents::admit(Agent& agent, std::uint64_t now) {
  const Facts& facts = agent.facts();
  if (facts.change || facts.final || random_.chance(0.3)) return false;
  Members all(facts.set.members.begin(), facts.set.members.end());
  const Members silent = this->silent(agent, now);
  std::size_t came = 0;
  for (const Member& one : agent.present(now)) {
    if (facts.set.has(one)) continue;
    const auto same = std::ranges::find(all, one.host, &Member::host);
    if (same != all.end() && weather_.blunder != Blunder::kHostTwice) {
      if (!silent.contains(*same) || random_.chance(0.5)) continue;
      all.erase(same);
    }
    all.insert(one);
    ++came;
    if (random_.chance(0.3)) break;
  }
  if (came == 0 || !decide(agent, all, now)) return false;
  see("admissions");
  if (came > 1) see("admissions of several");
  return true;
}

void Agents::finish(std::size_t index) {
  Host& host = agents_[index];
  host.ended = host.agent->ending();
  if (weather_.blunder == Blunder::kEarlyFinal && host.agent->facts().final)
    host.ended = quorum::Ending{quorum::Ending::kFinal, host.agent->facts().final->code};
  note([&] {
    return name(host.agent->self()) + " ends with " + std::to_string(host.ended->code) +
           ", it has " + text(host.agent->facts());
  });
  see(host.ended->why == quorum::Ending::kFinal       ? "ends with the final"
      : host.ended->why == quorum::Ending::kNoQuorum  ? "ends without a quorum"
      : host.ended->why == quorum::Ending::kNotFormed ? "ends not formed"
                                                      : "ends taken out");
  host.workers = {};
  if (host.ended->why == quorum::Ending::kFinal) {
    const int code = acted_on_.emplace(host.agent->facts().history, host.ended->code).first->second;
    require(code == host.ended->code, "E7: two act on different finals, " + std::to_string(code) +
                                          " and " + std::to_string(host.ended->code));
  }
  tell(index);  // its last word
  host.alive = false;
}

}  // namespace lockstep::simulation
