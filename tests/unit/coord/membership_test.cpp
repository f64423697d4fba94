// What the coordinator does about troubles that no random schedule waits long enough for.
#include "coord/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/coord/driven_group.h"

namespace lockstep::coord {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr ExitStatus kKilled{-1, SIGKILL};

TEST(Replacements, ThatCannotBeStartedAreTriedLessAndLessOftenAndThenNoMore) {
  DrivenGroup group({.workers = 2, .max_replacements = 6, .timing = {}});
  group.start();
  group.exit(WorkerUid(2), kKilled);
  std::vector<std::uint64_t> tries;
  const auto refuse = [&] {
    while (const auto spawn = group.take_spawn()) {
      tries.push_back(group.now);
      group.feed(event::SpawnFailed{spawn->uid, "Too many open files"});
    }
  };
  refuse();
  group.pass(10 * kSecond, refuse);
  ASSERT_EQ(tries.size(), 6U);
  for (std::size_t i = 1; i < tries.size(); ++i) {
    const std::uint64_t pause = std::min<std::uint64_t>(50 * kMillisecond << (i - 1), kSecond);
    EXPECT_GE(tries[i] - tries[i - 1], pause);
    EXPECT_LE(tries[i] - tries[i - 1], pause + 20 * kMillisecond);
  }
  EXPECT_THAT(group.status(), HasSubstr("running: 1 of 1 workers"));
  EXPECT_THAT(group.printed, HasSubstr("Too many open files); the others go on without it"));
  group.feed(event::Signal{SIGTERM});
  EXPECT_THAT(group.status(), HasSubstr("stopping"));
}

TEST(Replacements, AreNotTriedForEverHoweverManyThereMayBe) {
  DrivenGroup group({.workers = 2, .max_replacements = 100, .timing = {}});
  group.start();
  group.exit(WorkerUid(2), kKilled);
  int tries = 0;
  group.pass(30 * kSecond, [&] {
    while (const auto spawn = group.take_spawn()) {
      ++tries;
      group.feed(event::SpawnFailed{spawn->uid, "Too many open files"});
    }
  });
  EXPECT_EQ(tries, 10);
  EXPECT_THAT(group.printed, HasSubstr("go on without it: 10 tries in a row have failed"));
}

TEST(Replacements, ComeOnceTheyCanBeStartedAgain) {
  DrivenGroup group({.workers = 2, .timing = {}});
  group.start();
  group.exit(WorkerUid(2), kKilled);
  group.feed(event::SpawnFailed{group.take_spawn()->uid, "Resource temporarily unavailable"});
  EXPECT_FALSE(group.take_spawn());
  group.pass(60 * kMillisecond);
  const auto spawn = group.take_spawn();
  ASSERT_TRUE(spawn);
  group.greet(spawn->uid);
  EXPECT_THAT(group.status(), HasSubstr("of 2 workers"));
  EXPECT_THAT(group.status(), HasSubstr("replacements left 8 of 10"));
}

}  // namespace
}  // namespace lockstep::coord
