// Connections, and words on their way.
#include "machines.h"

namespace lockstep::simulation {

void Machines::tell_closed(const Agent& from) {
  const Link link = from.link;
  Agent* head = find(from.head);
  if (link == 0 || head == nullptr || !reaches(from.machine, head->machine)) return;
  const Incarnation incarnation = head->incarnation;
  const std::uint64_t most = trouble_.only_failures ? 20 : 50, lead = from.led_by;
  clock_.after(random_.between(1, most) * kMillisecond, [this, incarnation, link, lead] {
    Agent* agent = find(incarnation);
    if (agent == nullptr || !agent->leader || agent->lead != lead) return;
    agent->leader->closed(link, time_of(agent->machine));
    go_on(incarnation);
  });
}

void Machines::close_below(Incarnation incarnation, Link link, std::size_t from) {
  if (!reaches(from, agents_.at(incarnation).machine)) return;
  clock_.after(random_.between(1, 50) * kMillisecond, [this, incarnation, link] {
    Agent* agent = find(incarnation);
    if (agent == nullptr || agent->link != link) return;
    agent->link = 0;
    agent->node->closed(time_of(agent->machine));
    go_on(incarnation);
  });
}

void Machines::connect(Agent& agent) {
  if (agent.leads || clock_.now() < agent.redials_at) return;
  const bool silent = agent.link != 0 && clock_.now() > agent.heard + rules_.limit / 3;
  if (silent && trouble_.planted == Planted::kRedialIsDeath) {
    tell_closed(agent);
    agent.link = 0;
    agent.node->closed(time_of(agent.machine));
  }
  Agent* head = places_.empty() ? leader() : nullptr;
  if (agent.target >= 0) head = leader_on(places_[static_cast<std::size_t>(agent.target)]);
  if ((agent.link != 0 && !silent) || head == nullptr || machines_[head->machine].paused ||
      !reaches(agent.machine, head->machine) || !reaches(head->machine, agent.machine))
    return;
  // Dialled beside the silent one, whose end the leader hears some time later.
  if (agent.link != 0) {
    ++outcome_.faults["dialled beside"];
    tell_closed(agent);
  }
  agent.link = ++links_;
  agent.head = head->incarnation;
  agent.led_by = head->lead;
  agent.heard = clock_.now();
  agent.up_at = agent.down_at = 0;
  agent.told_node = 0;
}

std::uint64_t Machines::delay(std::size_t from) {
  if (trouble_.only_failures || trouble_.only_silence)
    return random_.between(100 * kMicrosecond, 5 * kMillisecond);
  const std::uint64_t most = random_.chance(0.02) ? trouble_.limit / 4 : 5 * kMillisecond;
  return machines_[from].slow_by + random_.between(100 * kMicrosecond, most);
}

void Machines::say_up(Agent& agent) {
  Agent* head = find(agent.head);
  if (agent.leads || agent.link == 0 || head == nullptr) return;
  agent.told_node = agent.node->version();
  agent.up_at = std::max(agent.up_at, clock_.now() + delay(agent.machine));
  NodeWord word = agent.node->word(time_of(agent.machine));
  if (trouble_.planted == Planted::kAttemptToldBefore) word.told = 0;
  if (trouble_.planted == Planted::kRankTwice) {
    word.row.machine = "one";
    word.has_lock = true;
  }
  if (trouble_.planted == Planted::kMovedAtOnce) word.row.address = "10.0.0.9";
  if (trouble_.planted == Planted::kCauseByArrival && word.failure) word.failure->age_ns = 0;
  const Incarnation to = head->incarnation, from = agent.incarnation;
  const Link link = agent.link;
  const std::uint64_t lead = agent.led_by;
  clock_.after(agent.up_at - clock_.now(), [this, to, from, link, lead, word]() mutable {
    Agent* sender = find(from);
    Agent* receiver = find(to);
    if (sender == nullptr || receiver == nullptr || sender->link != link) return;
    if (!receiver->leader || receiver->lead != lead) return;  // it leads no more
    if (!reaches(sender->machine, receiver->machine)) return;
    if (machines_[receiver->machine].paused) return;
    if (trouble_.planted == Planted::kDeadNotAwaited) {
      word.alive = 0;
      word.echo = time_of(receiver->machine);
    }
    receiver->leader->heard(link, word, time_of(receiver->machine));
    if (receiver->leader->word_for(link, time_of(receiver->machine)).refusal.empty())
      arrived_[{receiver->turn ? lead : to, from}] = clock_.now();
    go_on(to);
  });
}

void Machines::say_down(Agent& head) {
  const bool to_all = head.told_leader != head.leader->version();
  const std::vector<Link> due = head.leader->take_due();
  head.told_leader = head.leader->version();
  for (auto& [incarnation, agent] : agents_) {
    if (agent.link == 0 || agent.head != head.incarnation || agent.led_by != head.lead) continue;
    if (!to_all && std::find(due.begin(), due.end(), agent.link) == due.end()) continue;
    agent.down_at = std::max(agent.down_at, clock_.now() + delay(head.machine));
    LeaderWord word = head.leader->word_for(agent.link, time_of(head.machine));
    const Link link = agent.link;
    const std::size_t from = head.machine;
    const Incarnation to = incarnation;
    clock_.after(agent.down_at - clock_.now(), [this, to, link, from, word]() mutable {
      Agent* receiver = find(to);
      if (receiver == nullptr || receiver->link != link) return;
      if (!reaches(from, receiver->machine) || machines_[receiver->machine].paused) return;
      receiver->heard = clock_.now();
      if (trouble_.planted == Planted::kArrivalForEcho && word.echo != 0)
        word.echo = time_of(receiver->machine);
      receiver->refused = !word.refusal.empty();
      if (receiver->refused)
        trace(receiver->machine, "agent " + std::to_string(to) + " is refused: " + word.refusal);
      receiver->node->heard(word, time_of(receiver->machine));
      go_on(to);
    });
  }
}

}  // namespace lockstep::simulation
