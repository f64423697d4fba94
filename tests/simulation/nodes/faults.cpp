// What happens to machines and processes.
#include <csignal>

#include "machines.h"

namespace lockstep::simulation {

void Machines::next_fault() {
  const double mean = 1 / trouble_.faults_per_second;
  const auto wait = static_cast<std::uint64_t>(
      mean * 1e9 * (0.1 + 1.8 * static_cast<double>(random_.between(0, 1000)) / 1000));
  clock_.after(wait, [this] {
    if (clock_.now() > trouble_.faults_until) return heal_all();
    fault();
    next_fault();
  });
}

void Machines::heal_all() {
  for (std::size_t i = 0; i < machines_.size(); ++i) {
    machines_[i].cut_from.clear();
    wake(i);
  }
  whole_at_ = clock_.now();
}

void Machines::wake(std::size_t machine) {
  if (Machine& one = machines_[machine]; std::exchange(one.paused, false)) {
    one.woken_at = clock_.now();
    if (trouble_.planted == Planted::kSleepNotCounted) one.slept += one.woken_at - one.paused_at;
  }
  std::vector<Incarnation> there;
  for (const auto& [incarnation, agent] : agents_)
    if (agent.machine == machine) there.push_back(incarnation);
  for (const Incarnation incarnation : there) go_on(incarnation);
}

void Machines::fault() {
  if (agents_.empty()) return;
  auto picked = agents_.begin();
  std::advance(picked, static_cast<std::ptrdiff_t>(random_.between(0, agents_.size() - 1)));
  Agent& agent = picked->second;
  const std::size_t machine = agent.machine;
  if (trouble_.only_moves)
    return agent.leads && random_.chance(0.5) ? hang(agent) : double_up(agent, 4 * rules_.limit);
  if (trouble_.only_ends) return;
  if (trouble_.only_leaders) {
    if (agent.leads && outcome_.attempts == 1 && !outcome_.faults.contains("leader's machine lost"))
      lose_machine(agent, false);
    return;
  }
  if (trouble_.only_silence) return be_silent(machine);
  if (trouble_.only_replaced) return replace(agent);
  if (trouble_.only_failures) return fail_something(agent);
  switch (random_.between(0, 9)) {
    case 0:
    case 1:
      note(machine, "agent killed");
      if (agent.turn && random_.chance(0.4)) return lose_machine(agent, random_.chance(0.3));
      return kill(agent, random_.chance(0.3) && (!agent.leads || agent.turn), 4 * rules_.limit);
    case 2:
    case 3:
      return fail_worker(agent);
    case 4:
    case 5:
      return pause(machine, random_.between(0, 3 * rules_.limit));
    case 6: {
      if (random_.chance(0.5)) return double_up(agent, 4 * rules_.limit);
      return random_.chance(0.1) ? signal(agent) : void();
    }
    default:
      return cut(machine);
  }
}

void Machines::pause(std::size_t machine, std::uint64_t time) {
  note(machine, "paused");
  if (!std::exchange(machines_[machine].paused, true)) machines_[machine].paused_at = clock_.now();
  clock_.after(time, [this, machine] { wake(machine); });
}

void Machines::signal(Agent& agent) {
  if (machines_[agent.machine].paused) return;
  const bool twice = agent.signalled_at != 0;
  const Incarnation incarnation = agent.incarnation;
  note(agent.machine, twice ? "signalled again" : "signalled");
  agent.node->signalled(SIGTERM);
  agent.signalled_at = clock_.now();
  go_on(incarnation);  // it may end
  if (twice || !random_.chance(0.5)) return;
  clock_.after(random_.between(0, 3 * kSecond), [this, incarnation] {
    if (Agent* one = find(incarnation)) signal(*one);
  });
}

bool Machines::runs(const Agent& agent, Attempt attempt) const {
  return agent.workers && agent.workers->attempt == attempt && agent.killing == 0 &&
         !machines_[agent.machine].paused;
}

void Machines::fail_worker(Agent& agent) {
  if (!agent.workers || !runs(agent, agent.workers->attempt) || agent.held) return;
  note(agent.machine, "worker killed");
  const Attempt attempt = agent.workers->attempt;
  fail_others(agent, 60 * kMillisecond);
  if (random_.chance(0.6)) return fail(agent, "root", 0, random_.chance(0.3));
  agent.held = nodes::Failure{attempt, 0, "root", 1, false};
  agent.held_since = time_of(agent.machine);
  clock_.after(kSecond, [this, incarnation = agent.incarnation, attempt] {
    if (Agent* one = find(incarnation); one != nullptr && runs(*one, attempt)) tell_held(*one);
  });
}

void Machines::fail_others(const Agent& agent, std::uint64_t soonest) {
  ++incidents_;
  for (const auto& [incarnation, other] : agents_)
    if (incarnation != agent.incarnation && other.head == agent.head && random_.chance(0.7))
      clock_.after(random_.between(soonest, 600 * kMillisecond),
                   [this, attempt = agent.workers->attempt, to = incarnation, soonest] {
                     Agent* one = find(to);
                     // While one death is held others are taken for its consequences
                     // (coord/plain/host.h).
                     if (one != nullptr && runs(*one, attempt) && !one->held)
                       fail(*one, "victim", 0, soonest > 0 && random_.chance(0.3));
                   });
}

void Machines::fail_something(Agent& agent) {
  if (agent.leads || random_.chance(0.5)) return fail_worker(agent);
  if (random_.chance(0.7)) {  // before its failure is told, or at some other time
    if (random_.chance(0.5)) fail_worker(agent);
    return clock_.after(random_.between(0, kSecond), [this, incarnation = agent.incarnation] {
      if (Agent* one = find(incarnation)) break_connection(*one);
    });
  }
  if (!agent.workers || !runs(agent, agent.workers->attempt) || agent.held) return;
  note(agent.machine, "agent killed");
  fail_others(agent, 0);
  kill(agent, false, 4 * rules_.limit);
}

// For less than L by some beats, one after the other: nothing may come of it.
void Machines::be_silent(std::size_t machine) {
  if (clock_.now() < disturbed_at_ + rules_.limit) return;
  const bool is_pause = random_.chance(0.5);
  note(machine, is_pause ? "short pause" : "short cut");
  if (is_pause)
    machines_[machine].paused = true;
  else
    cut_off(machine, random_.chance(0.3));
  clock_.after(random_.between(rules_.limit / 4, rules_.limit * 3 / 5), [this, machine] {
    machines_[machine].cut_from.clear();
    for (Machine& one : machines_) std::erase(one.cut_from, machine);
    wake(machine);
  });
}

// It is made again within its second; what has failed meanwhile is told late.
void Machines::break_connection(Agent& agent) {
  if (agent.link == 0) return;
  note(agent.machine, "connection broken");
  const std::uint64_t broken_for = random_.between(0, 970) * kMillisecond;
  tell_closed(agent);
  agent.link = 0;
  agent.node->closed(time_of(agent.machine));
  agent.redials_at = clock_.now() + broken_for;
  clock_.after(broken_for, [this, incarnation = agent.incarnation] { go_on(incarnation); });
}

void Machines::tell_held(Agent& agent) {
  if (!agent.held) return;
  agent.held.reset();
  fail(agent, "root", time_of(agent.machine) - agent.held_since, random_.chance(0.3));
}

void Machines::fail(Agent& agent, const std::string& kind, std::uint64_t age, bool by_signal) {
  nodes::Failure failure{0, age, "incident " + std::to_string(incidents_) + " " + kind, 1, false};
  failure.by_signal = by_signal;
  trace(agent.machine, failure.text);
  agent.node->workers_failed(failure, time_of(agent.machine));
  go_on(agent.incarnation);
}

void Machines::note(std::size_t machine, const std::string& kind) {
  ++outcome_.faults[kind];
  trace(machine, kind);
  disturbed_at_ = clock_.now();
}

void Machines::cut(std::size_t machine) {
  const bool one_way = random_.chance(0.3);
  note(machine, one_way ? "cut one way" : "cut");
  const std::size_t other = random_.between(0, machines_.size() - 1);
  const bool from_all = random_.chance(0.5);
  for (std::size_t i = 0; i < machines_.size(); ++i) {
    if (i == machine || (!from_all && i != other && i != 0)) continue;
    machines_[machine].cut_from.push_back(i);
    if (!one_way) machines_[i].cut_from.push_back(machine);
  }
  clock_.after(random_.between(0, 3 * rules_.limit), [this, machine] {
    machines_[machine].cut_from.clear();
    for (Machine& one : machines_) std::erase(one.cut_from, machine);
  });
}

void Machines::double_up(Agent& agent, std::uint64_t latest, bool hangs) {
  const auto spare = static_cast<std::size_t>(trouble_.nodes);
  const std::size_t from = agent.machine, to = from >= spare ? from - spare : from + spare;
  // Whoever starts each of N agents twice has two runs.
  if (agents_.size() + static_cast<std::size_t>(restarts_) >= 2 * spare - 1) return;
  note(from, agent.leads ? "leader doubled" : "doubled");
  const bool leads = agent.leads, at_once = hangs || (leads && random_.chance(0.7));
  // The endpoint's name leads elsewhere, but the old leader can still be reached.
  const bool is_cut = !leads || (!hangs && random_.chance(0.5)), one_way = random_.chance(0.5);
  if (is_cut) cut_off(from, one_way);
  ++restarts_;
  if (hangs) pause(from, random_.between(4, 12) * rules_.limit);
  if (leads && random_.chance(0.5)) double_another(agent);
  for (auto& [incarnation, other] : agents_)
    if (at_once && other.head == agent.incarnation && reaches(other.machine, from)) {
      other.link = 0;
      other.node->closed(time_of(other.machine));
    }
  clock_.after(at_once ? 0 : random_.between(0, latest), [this, to, leads, at_once] {
    --restarts_;
    if (ended_) return;
    if (leads) endpoint_ = to;
    start(to);
    if (at_once) all_go_on();  // whose connections were reset
  });
  clock_.after(random_.between(4, 12) * rules_.limit, [this, from] {
    machines_[from].cut_from.clear();
    for (Machine& one : machines_) std::erase(one.cut_from, from);
  });
}

void Machines::hang(const Agent& leader) {
  slow_down(leader.machine);
  clock_.after(random_.between(0, rules_.limit), [this, incarnation = leader.incarnation] {
    if (Agent* one = find(incarnation)) double_up(*one, 0, true);
  });
}

void Machines::double_another(const Agent& leader) {
  std::vector<Incarnation> others;
  for (const auto& [incarnation, other] : agents_)
    if (other.head == leader.incarnation && incarnation != leader.incarnation)
      others.push_back(incarnation);
  if (others.empty()) return;
  double_up(agents_.at(others[random_.between(0, others.size() - 1)]), rules_.limit / 3);
}

void Machines::slow_down(std::size_t machine) {
  note(machine, "slow");
  machines_[machine].slow_by = random_.between(0, trouble_.limit);
  clock_.after(random_.between(0, 3 * trouble_.limit),
               [this, machine] { machines_[machine].slow_by = 0; });
}

void Machines::replace(Agent& agent) {
  const auto spare = static_cast<std::size_t>(trouble_.nodes);
  if (!agent.workers || agent.leads || outcome_.faults["replaced"] > 0) return;
  const std::size_t from = agent.machine, to = from + spare;
  note(from, "replaced");
  cut_off(from, random_.chance(0.3));
  std::vector<Incarnation> others;
  for (const auto& [incarnation, other] : agents_)
    if (incarnation != agent.incarnation) others.push_back(incarnation);
  for (const Incarnation other : others) kill(*find(other), false, kSecond);
  ++restarts_;
  clock_.after(random_.between(0, kSecond), [this, to] {
    --restarts_;
    start(to);
  });
}

void Machines::cut_off(std::size_t machine, bool one_way) {
  for (std::size_t i = 0; i < machines_.size(); ++i) {
    if (i == machine) continue;
    machines_[i].cut_from.push_back(machine);
    if (!one_way) machines_[machine].cut_from.push_back(i);
  }
}

void Machines::kill(Agent& agent, bool moves, std::uint64_t longest) {
  const std::size_t machine = agent.machine;
  if (agent.workers) {
    ++strays_[machine];
    stray_workers_.emplace_back(machine, *agent.workers);
    clock_.after(random_.between(0, 50 * kMillisecond), [this, machine] {
      if (--strays_[machine] == 0) strays_.erase(machine);
      const auto found = std::find_if(stray_workers_.begin(), stray_workers_.end(),
                                      [&](const auto& entry) { return entry.first == machine; });
      stray_workers_.erase(found);
    });
  }
  drop(agent);
  if (ended_) return;
  ++restarts_;
  std::size_t to = machine;
  if (moves) {
    note(machine, "moved");
    const auto spare = static_cast<std::size_t>(trouble_.nodes);
    to = spare + random_.between(0, spare - 1);
    for (const auto& [incarnation, other] : agents_)
      if (other.machine == to) to = machine;
  }
  clock_.after(random_.between(0, longest), [this, to, machine] {
    --restarts_;
    const auto is_there = [&](std::size_t at) {
      return std::any_of(agents_.begin(), agents_.end(),
                         [&](const auto& entry) { return entry.second.machine == at; });
    };
    if (!ended_) start(is_there(to) ? machine : to);
  });
}

}  // namespace lockstep::simulation
