// Each mistake put in on purpose is found, in a run and among faults that give it an occasion.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "shape.h"

namespace lockstep::simulation {
namespace {

struct Mistake {
  std::string name;
  Blunder blunder;
  Run run;
  std::size_t hosts;
  std::size_t comers = 0;
  std::uint64_t most = 20'000;  // schedules
};

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all{
      {"quorums of the first set", Blunder::kOriginal, Run::kLinked, 4},
      {"two changes under way", Blunder::kOldAnswers, Run::kLinked, 4},
      {"two votes in a term", Blunder::kTwice, Run::kLinked, 4},
      {"a winner goes by its own facts", Blunder::kOwnFacts, Run::kLinked, 4},
      {"a vote is heard without its facts", Blunder::kUnread, Run::kLinked, 4},
      {"exactly half without the first", Blunder::kAnyHalf, Run::kLinked, 4},
      {"a change that was found is dropped", Blunder::kDrops, Run::kLinked, 4},
      {"with a comer the changed set elects", Blunder::kComerAlone, Run::kLinked, 3, 2},
      {"the changed set alone elects", Blunder::kNewAlone, Run::kLinked, 4},
      {"in force by the changed set", Blunder::kNewAnswers, Run::kLinked, 2, 3},
      {"first set in force by a quorum", Blunder::kSomeForm, Run::kLinked, 2},
      {"two makers", Blunder::kTwoMakers, Run::kLinked, 2},
      {"a host twice", Blunder::kHostTwice, Run::kLinked, 3},
      {"votes while a leader is heard", Blunder::kNotSticky, Run::kPlain, 3},
      {"a fence from arrival", Blunder::kArrival, Run::kPlain, 3},
      {"no quorum age", Blunder::kNoAge, Run::kPlain, 4},
      {"leads on without a quorum", Blunder::kLeadsOn, Run::kPlain, 3},
      {"workers of a leader without a quorum", Blunder::kWorkersStay, Run::kPlain, 3},
      {"no grace", Blunder::kNoGrace, Run::kPlain, 3},
      {"a final before it is in force", Blunder::kEarlyFinal, Run::kLinked, 4},
      {"in force as soon as it is written", Blunder::kOwnWrite, Run::kLinked, 4},
      {"a lock file for each stamp", Blunder::kFileBySeq, Run::kLinked, 2},
  };
  return all;
}

Weather weather_for(const Mistake& mistake, std::uint64_t seed) {
  Weather weather = draw_weather(seed);
  weather.run = mistake.run;
  weather.hosts = mistake.hosts;
  weather.comers = mistake.comers;
  weather.by_file = mistake.blunder == Blunder::kFileBySeq;
  weather.halves = mistake.blunder == Blunder::kNoAge;
  weather.cuts = mistake.comers > 0 ? 6 : 10;
  weather.suspicions = weather.run == Run::kLinked ? 4 : 1;
  weather.slow = weather.run == Run::kLinked && seed % 2 == 0;
  weather.seconds = 30;
  weather.lost = mistake.blunder == Blunder::kUnread ? 0.2 : weather.lost;
  weather.twice = mistake.blunder == Blunder::kTwoMakers || mistake.blunder == Blunder::kSomeForm ||
                  mistake.blunder == Blunder::kHostTwice;
  if (weather.twice) {  // while the first set is made
    weather.seconds = 5;
    weather.crashes = weather.pauses = 0;
  }
  const bool elections =
      mistake.blunder == Blunder::kComerAlone || mistake.blunder == Blunder::kNewAlone ||
      mistake.blunder == Blunder::kTwice || mistake.blunder == Blunder::kOwnFacts ||
      mistake.blunder == Blunder::kUnread;
  if (elections || weather.halves) {
    weather.halves = mistake.blunder != Blunder::kTwice;
    weather.slow = weather.aimed = elections;
    weather.crashes = weather.ends = 0;
    weather.pauses = 2;
    weather.cuts = 16;
    weather.seconds = 60;
  }
  return weather;
}

Course play(const Mistake& mistake, std::uint64_t seed, bool planted) {
  Weather weather = weather_for(mistake, seed);
  if (planted) weather.blunder = mistake.blunder;
  return run_agents(seed, weather);
}

TEST(QuorumPlanted, NothingIsFoundWithoutThem) {
  for (const Mistake& mistake : mistakes())
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      const Course course = play(mistake, seed, false);
      ASSERT_EQ(course.violation, "") << mistake.name << ", seed " << seed << "\n"
                                      << course.journal;
    }
}

#ifndef __SANITIZE_ADDRESS__
TEST(QuorumPlanted, EachIsFound) {
  for (const Mistake& mistake : mistakes()) {
    Course course;
    std::uint64_t seed = 0;
    while (seed < mistake.most && course.violation.empty()) course = play(mistake, ++seed, true);
    EXPECT_NE(course.violation, "") << mistake.name;
    std::cout << mistake.name << ": seed " << seed << ": " << course.violation << "\n";
  }
}
#endif

}  // namespace
}  // namespace lockstep::simulation
