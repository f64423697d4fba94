// The rules of links and rounds under deaths, breaks, cuts, pauses, false suspicion and changes of
// the leader, by seed. A failure prints its seed and what happened.
//   hosts_simulation [--seed N] [--schedules N]
#include <gtest/gtest.h>

#include "../seeds.h"
#include "shape.h"

namespace lockstep::simulation {
namespace {

Seeds seeds{1, kSanitized ? 1000 : 10000};

// What has to have happened so often in 1,000 schedules, or they prove nothing.
const Occasions kOccasions{
    {"worker deaths", 300},
    {"host deaths", 300},
    {"link deaths", 200},
    {"breaks", 200},
    {"cuts", 50},
    {"cuts one way", 50},
    {"cuts for good", 30},
    {"exclusions for a cut", 20},
    {"pauses", 300},
    {"false suspicions", 80},
    {"leaders lost", 80},
    {"leaders deposed", 30},
    {"rounds of a deposed leader", 1},
    {"leaders elected", 80},
    {"votes that are missing", 20},
    {"rounds", 600},
    {"replacements", 60},
    {"replacements during a round", 20},
    {"replacements that came in", 20},
    {"hosts that come back", 40},
    {"dead hosts that come back", 40},
    {"returned hosts that came in", 30},
    {"several newcomers", 50},
    {"rounds that name several", 100},
    {"reports of older rounds", 50},
    {"stale fills", 1},
    {"items filled", 300},
    {"fills by a host out of the table", 30},
    {"hosts out of the table alone", 100},
    {"newcomers that came in", 50},
    {"tables of others", 300},
    {"folded nodes", 1000},
    {"torn frames", 0},
    {"frames put aside", 20},
    {"frames into the bin", 500},
    {"landings dropped", 100},
    {"ends", 600},
    {"ends without a quorum", 10},
};

TEST(Hosts, InvariantsHoldInEverySchedule) {
  Occasions seen;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const Outcome outcome = run_hosts(seed, draw(seed));
    ASSERT_EQ(outcome.violation, "")
        << "seed " << seed << "\n"
        << outcome.journal << "again: hosts_simulation --seed " << seed;
    for (const auto& [what, times] : outcome.seen) seen[what] += times;
    seen["steps"] += outcome.steps;
  }
  expect_occasions(seeds, seen, kOccasions);
}

TEST(Hosts, AScheduleIsDeterministic) {
  const Outcome a = run_hosts(7, draw(7)), b = run_hosts(7, draw(7));
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.seen, b.seen);
}

}  // namespace
}  // namespace lockstep::simulation

int main(int argc, char** argv) {
  return lockstep::simulation::run_simulation(argc, argv, lockstep::simulation::seeds);
}
