// Random schedules against the coordinator. A failure prints its seed and a line that runs it
// again.
//   coord_simulation [--seed N] [--schedules N]
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "simulation/schedule.h"
#include "simulation/seeds.h"

namespace lockstep::simulation {
namespace {

Seeds seeds{1, kSanitized ? 1000 : 10000};

TEST(Simulation, InvariantsHoldInEverySchedule) {
  Outcome total;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const Outcome outcome = run_schedule(seed);
    ASSERT_TRUE(outcome.violation.empty())
        << "seed " << seed << ": " << outcome.violation << "\n"
        << outcome.journal << "\nagain: coord_simulation --seed " << seed;
    total.faults += outcome.faults;
    total.deaths += outcome.deaths;
    total.incidents += outcome.incidents;
    total.rejoins += outcome.rejoins;
    total.restarts += outcome.restarts;
    total.scales += outcome.scales;
    total.joiners_killed += outcome.joiners_killed;
    total.orphaned += outcome.orphaned;
    total.overtaken += outcome.overtaken;
    total.crowded += outcome.crowded;
    total.held_back += outcome.held_back;
    total.finished += outcome.finished;
    total.slowed += outcome.slowed;
    total.hung_evicted += outcome.hung_evicted;
    total.slow_evicted += outcome.slow_evicted;
    total.attached += outcome.attached;
    total.attached_rejoins += outcome.attached * outcome.rejoins;
    total.out_of_time += outcome.out_of_time;
    total.out_of_time_again += outcome.out_of_time_again;
    total.signalled += outcome.signalled;
    total.let_go += outcome.let_go;
    total.events += outcome.events;
  }
  std::cout << seeds.count << " schedules, " << total.events << " events: " << total.faults
            << " faults, " << total.deaths << " deaths in " << total.incidents << " incidents, "
            << total.rejoins << " rejoined, " << total.joiners_killed
            << " newcomers killed while healing, " << total.orphaned << " orphaned, "
            << total.restarts << " restarts, " << total.scales << " scalings, " << total.overtaken
            << " overtaken, " << total.attached << " started by hand, " << total.attached_rejoins
            << " rejoined there, " << total.slowed << " slowed down, " << total.hung_evicted
            << " that hung and " << total.slow_evicted << " slow ones evicted, " << total.finished
            << " runs finished, " << total.out_of_time << " of them out of time ("
            << total.out_of_time_again << " after another start), " << total.signalled
            << " ended by a signal and went on again, " << total.let_go
            << " went on without a worker that had one\n";
  if (seeds.count < 10000) return;
  // A fault that never fires proves nothing.
  EXPECT_GT(total.deaths, seeds.count);
  EXPECT_GT(total.rejoins, seeds.count / 10);
  EXPECT_GT(total.restarts, seeds.count / 10);
  EXPECT_GT(total.joiners_killed, seeds.count / 50);
  EXPECT_GT(total.orphaned, seeds.count / 200);
  EXPECT_GT(total.scales, seeds.count / 10);
  EXPECT_GT(total.crowded, 0U);
  EXPECT_GT(total.held_back, seeds.count / 20);
  EXPECT_GT(total.finished, seeds.count / 2);
  EXPECT_GT(total.slowed, seeds.count / 10);
  EXPECT_GT(total.hung_evicted, seeds.count / 50);
  EXPECT_GT(total.slow_evicted, seeds.count / 100);
  EXPECT_GT(total.attached, seeds.count / 10);
  EXPECT_GT(total.attached_rejoins, seeds.count / 200);
  EXPECT_GT(total.out_of_time, seeds.count / 20);
  EXPECT_GT(total.out_of_time_again, seeds.count / 500);
  EXPECT_GT(total.signalled, seeds.count / 50);
  EXPECT_GT(total.let_go, seeds.count / 1000);
  if (seeds.count < 100'000) return;
  EXPECT_GT(total.overtaken, 0U);  // in one of 5000
}

#ifndef __SANITIZE_ADDRESS__
// The first schedule that breaks an invariant on a board of these sizes; none: empty.
std::string first_violation(const BoardSizes& sizes) {
  // Each fault is found by the same schedule, however many are asked for.
  for (std::uint64_t seed = 1; seed <= std::max<std::uint64_t>(seeds.count, 10'000); ++seed)
    if (const Outcome outcome = run_schedule(seed, sizes); !outcome.violation.empty())
      return "seed " + std::to_string(seed) + ": " + outcome.violation;
  return "";
}

// An evaluation passes without those who have no batch of it, and an epoch may end with two, so a
// member may be three transactions behind: with room for fewer the simulation has to find what is
// lost.
TEST(Simulation, FindsThatThreeTablesAreTooFew) {
  EXPECT_THAT(first_violation({.tables = 3}), testing::HasSubstr("a worker leaves"));
}

TEST(Simulation, FindsThatThreeRegionsForBuffersAreTooFew) {
  EXPECT_THAT(first_violation({.buffers = 3}), testing::HasSubstr("is gone before all"));
}

TEST(Simulation, FindsThatOneEvaluationIsTooFew) {
  EXPECT_THAT(first_violation({.evaluations = 1}), testing::HasSubstr("is gone before all"));
}

// A fast member leaves out what the next transaction has no sum of while a slow one reads this
// one's.
TEST(Simulation, FindsThatOneGenerationOfWhatIsLeftOutIsTooFew) {
  EXPECT_THAT(first_violation({.left_out = 1}), testing::HasSubstr("against its update"));
}

TEST(Simulation, FindsThatThreeGenerationsOfRowsAreTooFew) {
  EXPECT_THAT(first_violation({.rows = 3}), testing::HasSubstr("is gone before all"));
}

// Then the group can die when the stop has taken effect and nobody knows where.
TEST(Simulation, FindsThatAStopHasToBeRecordedFirst) {
  EXPECT_THAT(first_violation({.stops_wait = false}), testing::HasSubstr("the run stops behind"));
}

// Mistakes in steps of several updates.
TEST(Simulation, FindsANewcomerWithinAStep) {
  EXPECT_THAT(first_violation({.planted = {.no_borders = true}}), testing::HasSubstr("step"));
}

TEST(Simulation, FindsThatAnImageForgetsTheFirstUpdates) {
  EXPECT_THAT(first_violation({.planted = {.image_forgets = true}}),
              testing::HasSubstr("has taught differs"));
}

TEST(Simulation, FindsThatAnImageForgetsTheEnd) {
  EXPECT_THAT(first_violation({.planted = {.image_forgets_end = true}}),
              testing::HasSubstr("goes on behind the end"));
}

TEST(Simulation, FindsThatRecordsLackTheEnd) {
  EXPECT_THAT(first_violation({.planted = {.records_lack_end = true}}),
              testing::HasSubstr("goes on behind the end"));
}

TEST(Simulation, FindsThatRecordsLackTheirLoss) {
  EXPECT_THAT(first_violation({.planted = {.records_lack_loss = true}}),
              testing::HasSubstr("has taught differs"));
}

TEST(Simulation, FindsAnEmptyChunkThatIsTakenForASum) {
  EXPECT_THAT(first_violation({.planted = {.empty_is_a_sum = true}}),
              testing::HasSubstr("differs"));
}

TEST(Simulation, FindsAGeneratorThatAShareHasLeft) {
  EXPECT_THAT(first_violation({.planted = {.generator_stays = true}}),
              testing::HasSubstr("differs"));
}

TEST(Simulation, FindsOwnCodeThatACheckpointHasAlready) {
  EXPECT_THAT(first_violation({.planted = {.own_code_before = true}}),
              testing::HasSubstr("not made from the undisturbed run's state"));
}

// Mistakes in what a share leaves behind.
TEST(Simulation, FindsARowOfAStepThatDidNotCommit) {
  EXPECT_THAT(first_violation({.planted = {.row_before_commit = true}}),
              testing::HasSubstr("differs"));
}

TEST(Simulation, FindsRowsThatAreWrittenBehindTheirMark) {
  EXPECT_THAT(first_violation({.planted = {.rows_late = true}}),
              testing::HasSubstr("is gone before all"));
}

TEST(Simulation, FindsBuffersThatAreWrittenBehindTheirMark) {
  EXPECT_THAT(first_violation({.planted = {.buffers_late = true}}),
              testing::HasSubstr("is gone before all"));
}

// Mistakes in what the program does at an update.
TEST(Simulation, FindsAHookThatRunsTwice) {
  EXPECT_THAT(first_violation({.planted = {.hook_twice = true}}),
              testing::HasSubstr("the state after transaction"));
}

TEST(Simulation, FindsThatWhoAppliesLateHasNoHook) {
  EXPECT_THAT(first_violation({.planted = {.no_hook_if_late = true}}),
              testing::HasSubstr("the state after transaction"));
}

TEST(Simulation, FindsAHookBeforeTheRows) {
  EXPECT_THAT(first_violation({.planted = {.hook_before_rows = true}}),
              testing::HasSubstr("the state after transaction"));
}
#endif

// Each found a mistake about something that happens in it. Where it happens no more, as the draws
// have changed, the schedule proves nothing: then look for another seed (the counters of
// schedule.h).
TEST(Simulation, SchedulesThatOnceFailed) {
  const Outcome crowded = run_schedule(1669);
  EXPECT_EQ(crowded.violation, "");
  EXPECT_GT(crowded.crowded, 0U) << "leavers and newcomers together are no more than shares";

  const Outcome held = run_schedule(29861);
  EXPECT_EQ(held.violation, "");
  EXPECT_GT(held.held_back, 0U) << "no table to come lists the dead owner of a slot";

  const Outcome overtaken = run_schedule(102246);
  EXPECT_EQ(overtaken.violation, "");
  EXPECT_GT(overtaken.overtaken, 0U) << "nobody reads sums while they are written over";
}

TEST(Simulation, IsDeterministic) {
  const Outcome a = run_schedule(7), b = run_schedule(7);
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.deaths, b.deaths);
}

}  // namespace
}  // namespace lockstep::simulation

int main(int argc, char** argv) {
  return lockstep::simulation::run_simulation(argc, argv, lockstep::simulation::seeds);
}
