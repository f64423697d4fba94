// The clock, and the oracle.
#include "machines.h"

#include <csignal>
#include <cstdio>

namespace lockstep::simulation {

Machines::Machines(std::uint64_t seed, const Trouble& trouble) : random_(seed), trouble_(trouble) {
  rules_.nodes = trouble.nodes;
  rules_.max_restarts = trouble.max_restarts;
  rules_.limit = trouble.limit;
  rules_.join_timeout = 60 * kSecond;
  if (trouble.planted == Planted::kNoGrace) rules_.grace = 0;
  if (trouble.planted == Planted::kCauseNotAwaited) rules_.settle = 0;
  machines_.resize(2 * static_cast<std::size_t>(trouble.nodes));  // half are spare
  draw_places();
  for (Machine& machine : machines_)
    machine.rate = 1 + (static_cast<double>(random_.between(0, 200)) - 100) * 2e-4;
  for (int i = 0; i < trouble.nodes; ++i)
    clock_.after(random_.between(0, 5 * kSecond),
                 [this, i] { start(static_cast<std::size_t>(i)); });
  next_fault();
  beat();
}

// The first node's machine, and others, of which some are spare.
void Machines::draw_places() {
  rules_.in_turn = trouble_.places > 0;
  know_end_ = static_cast<int>(random_.between(0, static_cast<std::uint64_t>(trouble_.nodes) - 1));
  for (std::size_t next = 0; places_.size() < static_cast<std::size_t>(trouble_.places);) {
    if (std::find(places_.begin(), places_.end(), next) == places_.end()) places_.push_back(next);
    const bool spare = !trouble_.only_ends && random_.chance(0.3);
    next = spare && trouble_.only_leaders
               ? machines_.size() / 2  // of the first node, which leads
               : random_.between(0, machines_.size() / (spare ? 1 : 2) - 1);
  }
}

Outcome Machines::run() {
  while (clock_.now() < kSecond * 3600 && !done()) {
    if (!clock_.step()) break;
    look();
  }
  require(done(), "the run has not ended an hour later");
  outcome_.took = clock_.now();
  check_codes();
  return outcome_;
}

void Machines::trace(std::size_t machine, const std::string& what) const {
  if (traced_)
    std::fprintf(stderr, "%9.3f machine %zu: %s\n", static_cast<double>(clock_.now()) * 1e-9,
                 machine, what.c_str());
}

std::uint64_t Machines::time_of(std::size_t machine) const {
  const double time = static_cast<double>(clock_.now() - machines_[machine].slept);
  return static_cast<std::uint64_t>(time * machines_[machine].rate) + machine * 1'000 * kSecond;
}

bool Machines::reaches(std::size_t from, std::size_t to) const {
  const auto& cut = machines_[to].cut_from;
  return std::find(cut.begin(), cut.end(), from) == cut.end();
}

Machines::Agent* Machines::find(Incarnation incarnation) {
  const auto found = agents_.find(incarnation);
  return found == agents_.end() ? nullptr : &found->second;
}

Machines::Agent* Machines::leader() {
  Agent* best = nullptr;
  for (auto& [incarnation, agent] : agents_) {
    if (!agent.leads) continue;
    if (!places_.empty() && (best == nullptr || goes_on(lead_of(agent), lead_of(*best))))
      best = &agent;
    if (places_.empty() && agent.machine == endpoint_) return &agent;
  }
  return best;
}

void Machines::look() {
  std::map<std::uint64_t, Seen> runs;
  const auto see = [&](std::size_t machine, const Workers& workers) {
    // On waking it kills what is too old.
    if (machines_[machine].paused ||
        clock_.now() < machines_[machine].woken_at + 200 * kMillisecond)
      return;
    Seen& seen = runs[workers.run];
    require(seen.attempt == 0 || workers.attempt == seen.attempt, "two attempts at once");
    require(!trouble_.only_replaced || runs.size() == 1, "two runs at once");
    require(seen.world == 0 || workers.world == seen.world, "two sizes of the world");
    require(seen.ranks.insert(workers.rank).second, "a rank twice");
    seen.attempt = workers.attempt;
    seen.world = workers.world;
  };
  for (const auto& [incarnation, agent] : agents_) {
    if (agent.workers) see(agent.machine, *agent.workers);
    const std::uint64_t since = std::max(agent.signalled_at, machines_[agent.machine].woken_at);
    require(agent.signalled_at == 0 || machines_[agent.machine].paused ||
                clock_.now() < since + 5 * rules_.limit + 5 * kSecond,
            "a signal ends nothing");
  }
  for (const auto& [machine, workers] : stray_workers_) see(machine, workers);
  count_leaders();
  require(outcome_.attempts <= static_cast<Attempt>(trouble_.max_restarts) + 1,
          "more restarts than --max-restarts");
}

void Machines::check_rank(const Agent& agent, int rank) {
  const Incarnation by = agent.turn ? agent.led_by : agent.head;
  auto& [incarnation, machine] = holders_[{by, rank}];
  if (incarnation != 0 && incarnation != agent.incarnation && machine != agent.machine)
    require(static_cast<double>(clock_.now() - arrived_[{by, incarnation}]) >
                2.9 * static_cast<double>(rules_.limit),
            "a rank is taken over before 3 L");
  incarnation = agent.incarnation;
  machine = agent.machine;
}

void Machines::check_end(const Agent& agent, const nodes::Final& final) const {
  // One that has run is no second claim of its rank, but was replaced.
  const std::set<int> codes{0, 1, 69, 128 + SIGTERM, agent.node->word(0).ran == 0 ? 2 : 0};
  require(codes.contains(final.code),
          "exit code " + std::to_string(final.code) + ": " + final.text);
  if (final.code == 1) check_cause(final.text);
  const bool is_lost = final.text.starts_with("node ") && (final.code == 1 || final.code == 69) &&
                       final.text.find("join_timeout") == std::string::npos;
  require(!is_lost || begun_ > static_cast<Attempt>(trouble_.max_restarts),
          "the run ends although a restart is left");
}

void Machines::check_cause(const std::string& text) const {
  if (!trouble_.only_failures) return;
  const auto names = [&](const char* what) { return text.find(what) != std::string::npos; };
  require(names(" root") || names("has closed its connection") || names("was started again"),
          "a consequence is named: " + text);
}

void Machines::check_codes() const {
  std::map<Incarnation, Ends> last;
  for (const auto& [place, ends] : ends_) last[place.first] = ends;
  for (const auto& [leader, ends] : last)
    require(ends.codes.size() == 1 || disturbed_at_ + 6 * rules_.limit > ends.first_at,
            "exit codes differ");
}

Outcome run_nodes(std::uint64_t seed, const Trouble& trouble) {
  return Machines(seed, trouble).run();
}

}  // namespace lockstep::simulation
