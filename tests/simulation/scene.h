// What the parts of one schedule share: the host, the agent, and what has happened so far.
#pragma once

#include <csignal>
#include <cstdint>
#include <memory>
#include <vector>

#include "simulation/schedule.h"
#include "simulation/sim_agent.h"

namespace lockstep::simulation {

struct Scene {
  explicit Scene(std::uint64_t seed) : random(seed), plan(make_plan(random, seed)) {}
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  // nullptr: nobody is alive.
  SimWorker* victim() {
    const auto alive = agent->alive();
    return alive.empty() ? nullptr : alive[random.between(0, alive.size() - 1)];
  }

  void kill_everybody() {
    for (SimWorker* worker : agent->alive()) worker->end({-1, SIGKILL});
  }

  Random random;
  Clock clock;
  Plan plan;
  Plan::Reference reference = plan.reference();
  Host host{clock, random, plan, reference};
  AgentOptions options;
  std::unique_ptr<SimAgent> agent;
  Outcome outcome;
  std::uint64_t last_fault = 0;
  std::uint64_t slack = 0;         // beside what every fault may take
  std::uint64_t longest_slow = 0;  // a standstill that ends by itself
  bool signalled = false;          // the launcher
  bool again = false;              // the same command's second run
};

}  // namespace lockstep::simulation
