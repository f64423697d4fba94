// The leader's rules under delay, loss, cuts, halves, pauses, crashes, returns, comers and false
// suspicion, by seed. A failure prints its seed and what happened.
//   quorum_simulation [--seed N] [--schedules N]
#include <gtest/gtest.h>

#include "../clock.h"
#include "../seeds.h"
#include "shape.h"

namespace lockstep::simulation {

Weather draw_weather(std::uint64_t seed) {
  Random random(seed ^ 0x1ead1ead1ead);
  const auto upto = [&](std::uint64_t most) { return static_cast<int>(random.between(0, most)); };
  Weather weather;
  weather.run = random.chance(0.5) ? Run::kLinked : Run::kPlain;
  weather.hosts = random.between(2, 5);
  weather.comers = random.chance(0.5) ? 0 : random.between(1, 3);
  weather.by_file = weather.run == Run::kLinked && random.chance(0.15);
  weather.twice = random.chance(0.1);
  weather.crashes = upto(3);
  weather.returns = upto(2);
  weather.pauses = upto(2);
  weather.cuts = upto(6);
  weather.suspicions = upto(2);
  weather.ends = upto(1);
  weather.slow = random.chance(0.2);
  weather.aimed = random.chance(0.2);
  weather.late = random.chance(0.5);
  weather.seconds = random.between(15, 30);
  weather.lost = random.chance(0.3) ? 0.05 : 0;
  return weather;
}

namespace {

Seeds seeds{1, kSanitized ? 500 : 10000};

// What has to have happened so often in 1,000 schedules, or they prove nothing.
const Occasions kOccasions{
    {"admissions", 300},
    {"admissions of several", 15},
    {"changes", 1000},
    {"changes in force", 1000},
    {"comers", 400},
    {"connections made again", 1000},
    {"crashes", 500},
    {"cuts, each way", 200},
    {"differences", 1000},
    {"ends awaited", 150},
    {"ends not formed", 200},
    {"ends taken out", 300},
    {"ends with the final", 1000},
    {"ends without a quorum", 40},
    {"facts said whole again", 300},
    {"facts that cannot be read", 300},
    {"false suspicions", 150},
    {"fences", 500},
    {"finals", 300},
    {"finals that a winner found", 5},
    {"groups started", 500},
    {"halves", 200},
    {"halves, one way", 200},
    {"leaders", 700},
    {"lock files asked for", 10},
    {"lock files that a leader asks for", 3},
    {"messages lost", 1000},
    {"messages twice", 5000},
    {"one is cut off", 200},
    {"one is deaf", 200},
    {"one pair is cut", 200},
    {"pauses", 200},
    {"pauses of the clock", 80},
    {"places claimed twice", 40},
    {"ports refused", 300},
    {"returns", 150},
    {"winners that found a change", 10},
    {"writes", 1000},
    {"writes in force", 1000},
};

TEST(Quorum, InvariantsHoldInEverySchedule) {
  Occasions seen;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const Course course = run_agents(seed, draw_weather(seed));
    ASSERT_EQ(course.violation, "") << "seed " << seed << "\n"
                                    << course.journal << "again: quorum_simulation --seed " << seed;
    for (const auto& [what, times] : course.seen) seen[what] += times;
  }
  expect_occasions(seeds, seen, kOccasions);
}

TEST(Quorum, AScheduleIsDeterministic) {
  EXPECT_EQ(run_agents(7, draw_weather(7)).seen, run_agents(7, draw_weather(7)).seen);
}

}  // namespace
}  // namespace lockstep::simulation

int main(int argc, char** argv) {
  return lockstep::simulation::run_simulation(argc, argv, lockstep::simulation::seeds);
}
