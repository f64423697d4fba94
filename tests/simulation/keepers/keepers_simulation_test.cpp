// Random schedules of a run's keepers over two to four hosts. `--seed N`: one, with its journal;
// `--schedules N`: so many.
#include <gtest/gtest.h>

#include <iostream>

#include "../seeds.h"
#include "run.h"

namespace lockstep::simulation {
namespace {

Seeds g_seeds{1, kSanitized ? 200 : 2500};

TEST(Keepers, EveryScheduleEndsAndKeepsTheRules) {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = g_seeds.first; seed < g_seeds.first + g_seeds.count; ++seed) {
    const Outcome outcome = play_keepers(seed, Blunder::kNone, g_seeds.count == 1);
    ASSERT_TRUE(outcome.violation.empty())
        << "seed " << seed << ": " << outcome.violation << "\n"
        << (g_seeds.count == 1 ? outcome.journal
                               : play_keepers(seed, Blunder::kNone, true).journal);
    for (const auto& [what, count] : outcome.seen) seen[what] += count;
    ++seen["ends with " + std::to_string(*outcome.code)];
  }
  for (const auto& [what, count] : seen) std::cout << what << ": " << count << "\n";
  if (g_seeds.count < 1000) return;
  // What never happens proves nothing.
  for (const char* what : {"deaths",
                           "deaths of an only member",
                           "hangs",
                           "hosts lost before the first state",
                           "lost hosts",
                           "rounds",
                           "rounds by which hosts come",
                           "newcomers",
                           "hosts that come",
                           "hosts out of the tables",
                           "replacements",
                           "scales",
                           "stops",
                           "signals to workers",
                           "stops by workers' signals",
                           "deaths of all members",
                           "stops without a step",
                           "leavers",
                           "recorded stops",
                           "failed spawns",
                           "crashes in a share",
                           "copies for other hosts",
                           "breaks",
                           "lost leaders",
                           "leaders cut off",
                           "leaders that lead no more",
                           "elections"})
    EXPECT_GT(seen[what], static_cast<int>(g_seeds.count / 100)) << what;
  EXPECT_GT(seen["good ends"], static_cast<int>(g_seeds.count / 4));
}

}  // namespace
}  // namespace lockstep::simulation

int main(int argc, char** argv) {
  return lockstep::simulation::run_simulation(argc, argv, lockstep::simulation::g_seeds);
}
