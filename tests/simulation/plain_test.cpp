// Random schedules against the two parts of a plain run. A failure prints its seed.
#include <gtest/gtest.h>

#include <iostream>

#include "simulation/plain_hosts.h"

namespace lockstep::simulation {
namespace {

TEST(PlainSimulation, InvariantsHoldInEverySchedule) {
  constexpr std::uint64_t kSchedules = 5000;
  PlainOutcome total;
  for (std::uint64_t seed = 1; seed <= kSchedules; ++seed) {
    const PlainOutcome outcome = run_plain_schedule(seed);
    ASSERT_TRUE(outcome.violation.empty()) << "seed " << seed << ": " << outcome.violation << "\n"
                                           << outcome.journal;
    total.deaths += outcome.deaths;
    total.spawn_failures += outcome.spawn_failures;
    total.restarts += outcome.restarts;
    total.signals += outcome.signals;
    total.killed_late += outcome.killed_late;
    total.stopped_jobs += outcome.stopped_jobs;
    total.good_ends += outcome.good_ends;
    total.frozen += outcome.frozen;
  }
  std::cout << kSchedules << " schedules: " << total.deaths << " deaths, " << total.spawn_failures
            << " failed starts, " << total.restarts << " restarts, " << total.signals
            << " signals, " << total.killed_late << " killed late, " << total.stopped_jobs
            << " stopped jobs, " << total.good_ends << " good ends, " << total.frozen
            << " frozen agents\n";
  // A fault that never fires proves nothing.
  EXPECT_GT(total.deaths, kSchedules);
  EXPECT_GT(total.spawn_failures, kSchedules / 20);
  EXPECT_GT(total.restarts, kSchedules / 5);
  EXPECT_GT(total.signals, kSchedules / 5);
  EXPECT_GT(total.killed_late, kSchedules / 20);
  EXPECT_GT(total.stopped_jobs, kSchedules / 10);
  EXPECT_GT(total.good_ends, kSchedules / 5);
  EXPECT_GT(total.frozen, kSchedules / 5);
}

}  // namespace
}  // namespace lockstep::simulation
