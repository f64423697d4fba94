// Agents that lead in turn, at the places of a list: what they look at, and what becomes of them.
#include "machines.h"

namespace lockstep::simulation {

Machines::Agent* Machines::leader_on(std::size_t machine) {
  for (auto& [incarnation, agent] : agents_)
    if (agent.leads && agent.machine == machine) return &agent;
  return nullptr;
}

nodes::Lead Machines::lead_of(const Agent& agent) const {
  return {agent.place, agent.leader->attempt(), agent.leader->is_active()};
}

// As the launcher does (launcher/nodes/leadership.h).
void Machines::take_turn(Agent& agent) {
  const std::uint64_t now = time_of(agent.machine);
  nodes::Succession& turn = *agent.turn;
  if (agent.leads) {
    const nodes::Lead own = lead_of(agent);
    own.active ? turn.look_no_more() : turn.look(now, now);
    if (turn.yields(own) && trouble_.planted != Planted::kNeverYields) yield(agent);
  } else {
    const bool is_led = agent.node->is_led(now);
    agent.link != 0 && is_led ? turn.look_no_more() : turn.look(agent.node->heard_at(), now);
    if (!is_led && !agent.node->leaves() && !agent.node->ending() && turn.may_lead(now) &&
        leader_on(agent.machine) == nullptr)
      lead(agent);
    else if (const auto place = turn.whom_to_follow(agent.target, is_led))
      follow(agent, *place);
  }
  look_around(agent);
}

void Machines::lead(Agent& agent) {
  ++outcome_.faults[leads_ == 0 ? "led first" : "led in turn"];
  trace(agent.machine, "leads");
  if (agent.link != 0) tell_closed(agent);
  agent.link = 0;
  agent.target = -1;
  agent.leads = true;
  agent.head = agent.incarnation;
  agent.lead = agent.led_by = ++leads_;
  nodes::Rules rules = rules_;
  if (trouble_.planted == Planted::kBudgetTooSmall) --rules.max_restarts;
  if (trouble_.planted == Planted::kLeadsAsTheFirst) rules.in_turn = false;
  const nodes::Row row = row_on(agent.machine, ++incarnations_);
  agent.leader = std::make_unique<Leader>(rules, row, ++runs_, records_[agent.machine],
                                          time_of(agent.machine));
  agent.turn->look_no_more();
}

void Machines::yield(Agent& agent) {
  ++outcome_.faults["yielded"];
  trace(agent.machine, "yields");
  for (auto& [incarnation, other] : agents_)
    if (other.link != 0 && other.head == agent.incarnation && &other != &agent)
      close_below(incarnation, other.link, agent.machine);
  records_.erase(agent.machine);
  agent.leads = false;
  agent.lead = 0;
  agent.leader.reset();
  agent.target = -1;
  agent.node->closed(time_of(agent.machine));
}

void Machines::follow(Agent& agent, int place) {
  if (agent.link != 0) tell_closed(agent);
  agent.link = 0;
  agent.target = place;
}

void Machines::look_around(Agent& agent) {
  if (!agent.turn->looks() || clock_.now() < agent.looks_at) return;
  agent.looks_at = clock_.now() + (agent.leads ? kSecond : 200 * kMillisecond);
  for (int place = 0; place < trouble_.places; ++place)
    if (place != agent.place) look_at(agent, place);
}

// There, at its place, and back.
void Machines::look_at(Agent& agent, int place) {
  const std::size_t from = agent.machine, to = places_[static_cast<std::size_t>(place)];
  const Incarnation who = agent.incarnation;
  const auto is_heard = [this, from, to] {
    return reaches(from, to) && reaches(to, from) && !machines_[to].paused;
  };
  const auto tell = [this, who](auto what) {
    Agent* one = find(who);
    if (one == nullptr || machines_[one->machine].paused || !one->turn->looks()) return;
    what(*one->turn, time_of(one->machine));
    go_on(who);
  };
  if (!is_heard())
    return clock_.after(kSecond, [tell, place] {
      tell([place](nodes::Succession& turn, std::uint64_t) { turn.found_silence(place); });
    });
  clock_.after(delay(from), [this, to, place, tell, is_heard] {
    const Agent* there = is_heard() ? leader_on(to) : nullptr;
    std::optional<nodes::Lead> lead;
    if (there != nullptr) lead = lead_of(*there);
    clock_.after(delay(to), [tell, lead, place, is_heard] {
      if (!is_heard()) return;
      tell([lead, place](nodes::Succession& turn, std::uint64_t now) {
        lead ? turn.found(*lead, now) : turn.found_nobody(place, now);
      });
    });
  });
}

// Once the network is whole again one of them gives up.
void Machines::count_leaders() {
  int count = 0;
  for (const auto& [incarnation, agent] : agents_)
    count += agent.turn && agent.leads && !agent.leader->final() ? 1 : 0;
  if (count < 2 || whole_at_ == 0) two_lead_since_ = 0;
  if (count < 2 || whole_at_ == 0) return;
  if (two_lead_since_ == 0) two_lead_since_ = clock_.now();
  require(clock_.now() < two_lead_since_ + 2 * rules_.limit + 5 * kSecond, "two leaders for long");
}

void Machines::lose_at_the_end(Agent& agent) {
  if (!agent.leader->final() || outcome_.faults.contains("leader's machine lost")) return;
  int know = 0;
  for (const auto& [incarnation, other] : agents_)
    know += incarnation != agent.incarnation && other.node->word(0).final ? 1 : 0;
  if (know >= know_end_) lose_machine(agent, true);
}

void Machines::lose_machine(Agent& agent, bool alone) {
  const auto spare = static_cast<std::size_t>(trouble_.nodes);
  const std::size_t from = agent.machine, pair = from >= spare ? from - spare : from + spare;
  const bool is_taken = std::any_of(agents_.begin(), agents_.end(), [&](const auto& entry) {
    return entry.second.machine == pair;
  });
  const std::size_t to = is_taken || (alone && !trouble_.only_ends) ? from : pair;
  if (agent.leads && outcome_.lost_at == 0) outcome_.lost_at = clock_.now();
  note(from, agent.leads ? "leader's machine lost" : "machine lost");
  cut_off(from, false);
  drop(agent);
  if (trouble_.only_ends) return;
  const std::uint64_t back = random_.between(4, 12) * rules_.limit;
  // Too late, and refused. Whoever starts each of N agents twice has two runs.
  const bool twice = to != from && random_.chance(0.3) && !trouble_.only_leaders &&
                     agents_.size() + static_cast<std::size_t>(restarts_) + 2 < 2 * spare;
  clock_.after(back, [this, from] {
    machines_[from].cut_from.clear();
    for (Machine& one : machines_) std::erase(one.cut_from, from);
  });
  const auto start_on = [this](std::size_t machine, std::uint64_t after) {
    ++restarts_;
    clock_.after(after, [this, machine] {
      --restarts_;
      const bool is_there = std::any_of(agents_.begin(), agents_.end(), [&](const auto& entry) {
        return entry.second.machine == machine;
      });
      if (!ended_ && !is_there) start(machine);
    });
  };
  start_on(to, to == from ? back : random_.between(0, 4 * rules_.limit));
  if (twice) start_on(from, back + random_.between(0, rules_.limit));
}

}  // namespace lockstep::simulation
