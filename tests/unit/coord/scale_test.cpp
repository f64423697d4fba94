// What newcomers are told when a run is scaled, and who has which local rank.
#include <gtest/gtest.h>

#include <set>

#include "unit/coord/driven_group.h"

namespace lockstep::coord {
namespace {

// torchrun's invariant, in every worker that has ever been started.
class Scaled : public testing::Test {
 protected:
  void check_spawns(int count, int world_size) {
    std::set<int> ranks;
    for (; count > 0; --count) {
      const auto spawn = group_.take_spawn();
      ASSERT_TRUE(spawn);
      EXPECT_LT(spawn->rank.value(), spawn->world_size);
      EXPECT_EQ(spawn->local_rank.value(), spawn->rank.value());
      EXPECT_EQ(spawn->world_size, world_size);
      EXPECT_TRUE(ranks.insert(spawn->rank.value()).second) << spawn->rank.value();
      group_.greet(spawn->uid);
    }
    EXPECT_FALSE(group_.take_spawn());
  }

  DrivenGroup group_{{.workers = 2, .max_restarts = 1, .timing = {}}};
};

TEST_F(Scaled, NewcomersAreToldOfAsManyAsThereShallBe) {
  group_.start();
  group_.feed(event::Scale{1, 5});
  check_spawns(3, 5);
}

TEST_F(Scaled, AGroupThatStartsAgainHasTheSizeThatItWasScaledTo) {
  group_.start();
  group_.feed(event::Scale{1, 5});
  check_spawns(3, 5);
  for (const std::uint64_t uid : {1, 2, 3, 4}) group_.exit(WorkerUid(uid), kKilled);
  while (group_.take_spawn()) continue;  // replacements, which end with the group
  group_.exit(WorkerUid(5), kKilled);
  ASSERT_TRUE(group_.take<action::RestartGroup>());
  check_spawns(5, 5);
}

// Its virtual workers may follow from the number of workers at the first start.
TEST_F(Scaled, BelowItsFirstSizeTheSizeStays) {
  group_.start();
  group_.feed(event::Scale{1, 1});
  group_.exit(WorkerUid(2), {0, 0});
  group_.exit(WorkerUid(1), kKilled);
  ASSERT_TRUE(group_.take<action::RestartGroup>());
  check_spawns(1, 2);
}

TEST_F(Scaled, ThatItIsDoneIsToldOnce) {
  group_.start();
  group_.feed(event::Scale{1, 1});
  group_.observe();
  EXPECT_EQ(group_.printed, "");
  group_.feed(event::Left{WorkerUid(2), Txn(1)});
  group_.exit(WorkerUid(2), {0, 0});
  group_.observe();
  group_.observe();
  EXPECT_EQ(group_.printed, "the group has shrunk from 2 to 1 workers\n");
}

TEST_F(Scaled, WhoLeavesTakesNoRankAway) {
  group_.start();
  group_.feed(event::Scale{1, 5});
  check_spawns(3, 5);
  group_.feed(event::Scale{2, 1});
  group_.feed(event::Scale{3, 3});
  EXPECT_FALSE(group_.take_spawn());  // no two processes have one local rank
  for (const std::uint64_t uid : {3, 4, 5}) group_.exit(WorkerUid(uid), kKilled);
  check_spawns(1, 3);
  group_.feed(event::Left{WorkerUid(2), Txn(1)});
  group_.exit(WorkerUid(2), {0, 0});
  check_spawns(1, 3);
}

TEST_F(Scaled, WhoIsGivenUpBeforeItIsForkedKeepsItsRankUntilItIsGone) {
  group_.start();
  group_.feed(event::Scale{1, 4});
  while (group_.take_spawn()) continue;
  group_.feed(event::Scale{2, 2});
  group_.feed(event::Scale{3, 4});
  EXPECT_FALSE(group_.take_spawn());
  for (const std::uint64_t uid : {3, 4}) group_.exit(WorkerUid(uid), kKilled);
  check_spawns(2, 4);
}

// Its own end is nobody's business; nor is it to keep others out.
TEST_F(Scaled, WhoLeavesAndDoesNotEndIsWaitedForAWhileOnly) {
  group_.start();
  group_.feed(event::Scale{1, 1});
  group_.feed(event::Left{WorkerUid(2), Txn(1)});
  group_.feed(event::Scale{2, 2});
  group_.pass(kSecond);
  EXPECT_FALSE(group_.take_spawn());
  group_.pass(2 * kSecond);
  check_spawns(1, 2);
}

TEST(Scale, BeforeTheFirstStepItIsToBeTriedAgainAndAtTheEndItIsNot) {
  DrivenGroup group({.workers = 2, .timing = {}});
  group.feed(event::Scale{1, 3});
  const auto early = group.take<action::Reply>();
  ASSERT_TRUE(early);
  EXPECT_FALSE(early->ok);
  EXPECT_EQ(early->kind, ErrorKind::kUnavailable);
  group.start();
  group.feed(event::Signal{SIGTERM});
  group.feed(event::Scale{2, 3});
  const auto late = group.take<action::Reply>();
  ASSERT_TRUE(late);
  EXPECT_EQ(late->kind, ErrorKind::kAborted);
}

}  // namespace
}  // namespace lockstep::coord
