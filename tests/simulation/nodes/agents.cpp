// What processes do.
#include <csignal>

#include "machines.h"

namespace lockstep::simulation {
namespace {

constexpr std::uint64_t kBeat = 250 * kMillisecond;

}  // namespace

void Machines::start(std::size_t machine) {
  if (started_ < trouble_.nodes) outcome_.came_at = clock_.now();
  ++started_;
  if (started_ > trouble_.nodes) started_ = trouble_.nodes;
  Agent agent;
  agent.incarnation = ++incarnations_;
  agent.machine = machine;
  agent.leads = places_.empty() && machine == endpoint_;
  if (agent.leads) agent.head = agent.incarnation;
  const nodes::Row row = row_on(machine, agent.incarnation);
  const std::uint64_t now = time_of(machine);
  if (!places_.empty()) {
    const auto found = std::find(places_.begin(), places_.end(), machine);
    if (found != places_.end()) agent.place = static_cast<int>(found - places_.begin());
    if (agent.place != 0) agent.target = 0;
    agent.turn = std::make_unique<nodes::Succession>(
        trouble_.places, agent.place, nodes::Succession::Times{rules_.limit, rules_.redial}, now);
  }
  if (agent.leads) {
    nodes::Rules rules = rules_;
    if (trouble_.planted == Planted::kBudgetTooSmall) --rules.max_restarts;
    agent.leader = std::make_unique<Leader>(rules, row, ++runs_, records_[machine], now);
  }
  nodes::Rules rules = rules_;
  if (trouble_.planted == Planted::kFollowsTheOnly) rules.in_turn = false;
  agent.node = std::make_unique<Node>(rules, row, now);
  if (agent.place >= 0 && records_[machine].attempt != 0) agent.node->has_led_before();
  agent.heard = clock_.now();
  const Incarnation incarnation = agent.incarnation;
  trace(machine, "agent " + std::to_string(incarnation) + " starts");
  agents_.emplace(incarnation, std::move(agent));
  go_on(incarnation);
}

nodes::Row Machines::row_on(std::size_t machine, Incarnation incarnation) const {
  nodes::Row row;
  row.address = "10.0.0." + std::to_string(machine);
  row.machine = "machine" + std::to_string(machine);
  row.incarnation = incarnation;
  row.workers = 1 + static_cast<std::uint32_t>(machine) % 3;
  if (ranks_given_) row.rank = static_cast<int>(machine) % trouble_.nodes;
  return row;
}

void Machines::go_on(Incarnation incarnation) {
  Agent* agent = find(incarnation);
  if (agent == nullptr || machines_[agent->machine].paused) return;
  const std::uint64_t now = time_of(agent->machine);
  if (is_alone(*agent)) agent->node->has_taken_lock();
  if (agent->leads) agent->leader->tick(now);
  agent->node->tick(now);
  if (agent->turn) take_turn(*agent);
  connect(*agent);
  for (int i = 0; agent->leads && i < 4; ++i) {  // its own node: no delay
    agent->leader->heard(nodes::kOwnLink, agent->node->word(now), now);
    agent->node->heard(agent->leader->word_for(nodes::kOwnLink, now), now);
    serve(*agent);
  }
  if (agent->leads) begun_ = std::max(begun_, agent->leader->attempt());
  if (agent->leads && agent->leader->attempt() != 0)
    records_[agent->machine] = agent->leader->record();
  serve(*agent);
  obey(*agent);
  if (agent->told_node != agent->node->version()) say_up(*agent);
  if (agent->leads) say_down(*agent);
  if (end_of(*agent)) return leave(incarnation);
  if (trouble_.only_ends && agent->leads) lose_at_the_end(*agent);
}

bool Machines::is_alone(const Agent& agent) const {
  return strays_.count(agent.machine) == 0 &&
         std::none_of(agents_.begin(), agents_.end(), [&](const auto& entry) {
           return entry.second.machine == agent.machine && entry.first < agent.incarnation;
         });
}

bool Machines::end_of(const Agent& agent) {
  if (!agent.leads) return agent.node->ending().has_value();
  if (!agent.leader->final()) return false;
  if (trouble_.planted == Planted::kFinalByHalf && !agent.workers) {
    int know = 0;
    for (const auto& [other, one] : agents_) know += one.node->word(0).final.has_value() ? 1 : 0;
    if (2 * know >= trouble_.nodes) return true;
  }
  return agent.node->ending().has_value();
}

void Machines::leave(Incarnation incarnation) {
  Agent& agent = agents_.at(incarnation);
  const auto final = agent.leads ? agent.leader->final() : agent.node->ending();
  require(!agent.workers, "an agent ends before its workers");
  check_end(agent, *final);
  outcome_.codes.push_back(final->code);
  const NodeWord last = agent.node->word(0);
  if (!agent.refused) {  // its code is its own
    Ends& ends = ends_.try_emplace({agent.head, last.ran}, Ends{{}, clock_.now()}).first->second;
    ends.codes.insert(final->code);
  }
  trace(agent.machine, "exit " + std::to_string(final->code) + " " + final->text);
  // Others than those that were refused, or that a leader had which another one has followed.
  const Agent* head = leader();
  ended_ = ended_ || (last.final && (head == nullptr || head->incarnation == agent.head));
  drop(agent);
}

void Machines::drop(Agent& agent) {
  Agent gone;
  gone.incarnation = agent.incarnation;
  gone.machine = agent.machine;
  gone.leads = agent.leads;
  gone.link = agent.link;
  gone.head = agent.head;
  gone.led_by = agent.led_by;
  agents_.erase(agent.incarnation);
  if (!gone.leads) return tell_closed(gone);
  for (auto& [incarnation, other] : agents_)
    if (other.link != 0 && other.head == gone.incarnation)
      close_below(incarnation, other.link, gone.machine);
}

void Machines::serve(Agent& agent) {
  if (const Attempt attempt = agent.node->wish().serve; attempt != 0)
    agent.node->serves({attempt, "10.0.0.1", 29'500, true});
}

void Machines::obey(Agent& agent) {
  const Node::Wish wish = agent.node->wish();
  const Incarnation incarnation = agent.incarnation;
  if (wish.run != 0 && !agent.workers) {
    const Node::Share share = agent.node->share();
    require(share.rank >= 0, "an attempt without a rank");
    check_rank(agent, share.rank);
    if (wish.run > 1) check_cause(agent.node->why());
    agent.held.reset();
    agent.workers = Workers{wish.run, share.base_rank, share.world};
    agent.killing = 0;
    const std::uint64_t run = agent.workers->run = agent.node->word(0).run;
    // Where all are new but one that comes late, an old record may say less than that one.
    const Agent* head = find(agent.head);
    for (auto& [other, one] : agents_)
      if (const NodeWord word = one.node->word(0);
          word.run == run && one.head == agent.head &&
          (places_.empty() ||
           (head != nullptr && head->leader && head->leader->has_rank(one.link))))
        require(word.told <= wish.run,
                "an attempt that is not above all told: " + std::to_string(wish.run) +
                    " at machine " + std::to_string(agent.machine) + ", " +
                    std::to_string(word.told) + " at machine " + std::to_string(one.machine));
    trace(agent.machine,
          "attempt " + std::to_string(wish.run) + " as node " + std::to_string(share.rank));
    agent.node->workers_started();
    outcome_.attempts = std::max(outcome_.attempts, wish.run);
    if (wish.run == 1 && outcome_.began_at == 0) outcome_.began_at = clock_.now();
    if (wish.run == 2 && outcome_.again_at == 0) outcome_.again_at = clock_.now();
    const Attempt attempt = wish.run;
    end_later(incarnation, attempt, trouble_.run_for + random_.between(0, 2 * kSecond));
  }
  if (wish.signal == 0 || !agent.workers || agent.killing == SIGKILL ||
      agent.killing == wish.signal)
    return;
  agent.killing = wish.signal;
  tell_held(agent);
  trace(agent.machine, "kills by " + std::to_string(wish.signal));
  const Attempt attempt = agent.workers->attempt;
  const bool gently = wish.signal != SIGKILL;
  clock_.after(random_.between(0, gently ? 2 * kSecond : 100 * kMillisecond),
               [this, incarnation, attempt] {
                 if (Agent* one = find(incarnation);
                     one != nullptr && one->workers && one->workers->attempt == attempt)
                   gone(*one, false);
               });
}

// Well, unless they are killed meanwhile. What is paused ends later.
void Machines::end_later(Incarnation incarnation, Attempt attempt, std::uint64_t after) {
  clock_.after(after, [this, incarnation, attempt] {
    Agent* one = find(incarnation);
    if (one == nullptr || !one->workers || one->workers->attempt != attempt) return;
    if (machines_[one->machine].paused) return end_later(incarnation, attempt, kSecond);
    gone(*one, one->killing == 0);
  });
}

void Machines::gone(Agent& agent, bool well) {
  trace(agent.machine,
        "attempt " + std::to_string(agent.workers->attempt) + (well ? " ended well" : " is gone"));
  agent.workers.reset();
  agent.node->workers_gone(well);
  go_on(agent.incarnation);
}

void Machines::all_go_on() {
  std::vector<Incarnation> all;
  for (const auto& [incarnation, agent] : agents_) all.push_back(incarnation);
  for (const Incarnation incarnation : all) go_on(incarnation);
}

void Machines::beat() {
  for (auto& [incarnation, agent] : agents_) agent.told_node = agent.told_leader = 0;
  all_go_on();
  clock_.after(kBeat, [this] { beat(); });
}

}  // namespace lockstep::simulation
