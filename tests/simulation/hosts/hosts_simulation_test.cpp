// The rules of links and rounds under deaths, breaks, cuts, pauses, false suspicion and changes of
// the leader, by seed. A failure prints its seed and what happened.
//   hosts_simulation [--seed N] [--schedules N]
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <string>

#include "../seeds.h"
#include "shape.h"

namespace lockstep::simulation {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
Seeds seeds{1, 1000};  // the schedules themselves are the other build's business
#else
Seeds seeds{1, 10000};
#endif

// What has to have happened so often in 1,000 schedules, or they prove nothing.
const std::map<std::string, std::uint64_t> kOccasions{
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
  std::map<std::string, std::uint64_t> seen;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const Outcome outcome = run_hosts(seed, draw(seed));
    ASSERT_EQ(outcome.violation, "")
        << "seed " << seed << "\n"
        << outcome.journal << "again: hosts_simulation --seed " << seed;
    for (const auto& [what, times] : outcome.seen) seen[what] += times;
    seen["steps"] += outcome.steps;
  }
  std::cout << seeds.count << " schedules";
  for (const auto& [what, times] : seen) std::cout << ", " << what << " " << times;
  std::cout << "\n";
  if (seeds.count < 1000) return;
  for (const auto& [what, times] : kOccasions)
    EXPECT_GE(seen[what], times * seeds.count / 1000) << what;
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
