// Who is taken for hung, after how long, and what is told of those that are slow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coord/membership.h"
#include "unit/coord/driven_group.h"

namespace lockstep::coord {
namespace {

using testing::HasSubstr;
using testing::Not;

// Three members in transaction 5; the first two wait for the third.
class BetweenSteps : public testing::Test {
 protected:
  BetweenSteps() : group_({.workers = 3, .timing = {}}) {
    group_.start();
    for (auto& [uid, seen] : group_.workers)
      seen = {.uid = uid, .current_txn = Txn(4), .applied = 5};
  }
  void let_wait(std::uint64_t uid, std::uint64_t txn, std::uint32_t items = DrivenGroup::kShares) {
    WorkerProgress& seen = group_.workers[WorkerUid(uid)];
    group_.be_at(Txn(txn));
    seen.items = items;
    seen.phase = Phase::kExchange;
    seen.current_txn = Txn(txn);
    ++seen.progress;
  }
  void let_others_wait() {
    let_wait(1, 5);
    let_wait(2, 5);
  }
  bool killed(std::uint64_t uid) const { return group_.killed(WorkerUid(uid)); }
  WorkerProgress& third() { return group_.workers[WorkerUid(3)]; }

  DrivenGroup group_;
};

TEST_F(BetweenSteps, WhoLetsTheOthersWaitForTenMinutesIsHung) {
  let_others_wait();
  group_.pass(599 * kSecond);
  EXPECT_FALSE(killed(3));
  group_.pass(2 * kSecond);
  EXPECT_TRUE(killed(3));
  EXPECT_FALSE(killed(1) || killed(2));
}

TEST_F(BetweenSteps, AskingForTheNextStepAgainAndAgainIsNoProgress) {
  let_others_wait();
  group_.pass(601 * kSecond, [&] { ++third().progress; });
  EXPECT_TRUE(killed(3));
}

TEST_F(BetweenSteps, ASlowOneIsReplacedForNothingAndTheNextHasTwiceTheTime) {
  let_others_wait();
  group_.pass(601 * kSecond);
  ASSERT_TRUE(killed(3));
  EXPECT_THAT(group_.printed,
              HasSubstr("rank 2 (worker 3) has got no further for 30.0 s between steps, after 5 "
                        "transactions: it is asleep; others wait for it; it is left alone until "
                        "others have waited for 10 min"));
  const auto recorded = group_.take<action::RecordStandstills>();
  ASSERT_TRUE(recorded);
  ASSERT_EQ(recorded->standstills.size(), 1U);
  EXPECT_EQ(recorded->standstills[0].phase, "idle");
  EXPECT_NEAR(recorded->standstills[0].cut_short_s, 600, 1);
  group_.exit(WorkerUid(3), kKilled);
  EXPECT_THAT(group_.printed, HasSubstr("hung between steps for 600.2 s, asleep while others "
                                        "waited for it; the next one has 20 min there"));
  const RunStatus status = group_.status();
  EXPECT_EQ(status.replacements_left, status.max_replacements);
  EXPECT_EQ(status.restarts, 0);
  EXPECT_EQ(status.target_world_size, 3);
  EXPECT_TRUE(group_.take_spawn()) << "its replacement";
}

TEST_F(BetweenSteps, WhatEarlierLaunchesHaveLearntHolds) {
  group_.feed(event::Remembered{{{"idle", 120, 0}}});
  let_others_wait();
  group_.pass(1199 * kSecond);
  EXPECT_FALSE(killed(3));
  group_.pass(2 * kSecond);
  EXPECT_TRUE(killed(3));
}

TEST_F(BetweenSteps, ACheckpointOrACopyThatStandsStillIsHung) {
  for (const Phase phase : {Phase::kSnapshot, Phase::kHeal}) {
    third().phase = phase;
    third().current_txn = Txn(5);
    let_wait(1, 5);
    let_wait(2, 5);
    group_.pass(500 * kSecond);
    EXPECT_FALSE(killed(3));
    ++third().progress;  // a sign of life
  }
  group_.pass(4900 * kSecond);
  EXPECT_FALSE(killed(3));  // it is given ten times what it has once needed
  group_.pass(110 * kSecond);
  EXPECT_TRUE(killed(3));
}

TEST_F(BetweenSteps, NobodyIsHungWhileNobodyWaits) {
  group_.pass(3600 * kSecond);  // all run code of their own
  for (const std::uint64_t uid : {1, 2, 3}) EXPECT_FALSE(killed(uid));
  // Two are done with it: so slow may it be.
  let_others_wait();
  group_.pass(35000 * kSecond);
  EXPECT_FALSE(killed(3));
  let_wait(3, 5);
  group_.pass(36000 * kSecond);  // all wait, for something else
  for (const std::uint64_t uid : {1, 2, 3}) EXPECT_FALSE(killed(uid));
}

TEST_F(BetweenSteps, WhoIsAheadOfThoseThatWaitIsNotAwaited) {
  let_wait(1, 4);
  let_wait(2, 4);
  group_.pass(3600 * kSecond);
  EXPECT_FALSE(killed(3));
}

// An evaluation of one batch: the first member's.
TEST_F(BetweenSteps, WhoOwnsNothingOfWhatOthersWaitForIsNotAwaited) {
  let_wait(2, 5, /*items=*/1);
  group_.workers[WorkerUid(1)].phase = Phase::kEvaluate;
  group_.pass(599 * kSecond);
  for (const std::uint64_t uid : {1, 2, 3}) EXPECT_FALSE(killed(uid));
  group_.pass(3600 * kSecond);
  EXPECT_TRUE(killed(1));
  EXPECT_FALSE(killed(2) || killed(3));
}

// It could not go on either, when the other is gone.
TEST_F(BetweenSteps, AStoppedMemberWaitsForNobody) {
  let_others_wait();
  for (const std::uint64_t uid : {1, 2}) group_.feed(event::Stopped{WorkerUid(uid)});
  group_.pass(3600 * kSecond);
  EXPECT_FALSE(killed(3));
}

TEST_F(BetweenSteps, ThatADebuggerHoldsWaitsForNobody) {
  let_wait(1, 5);
  group_.workers[WorkerUid(2)].phase = Phase::kForward;
  event::Vitals vitals{{{.uid = WorkerUid(1)}}, {}};
  group_.pass(7200 * kSecond, [&] {
    vitals.workers[0].excused_ns += 200 * kMillisecond;
    group_.feed(vitals);
  });
  EXPECT_FALSE(killed(2) || killed(3));
}

TEST_F(BetweenSteps, ExcusedTimeDoesNotCount) {
  let_others_wait();
  event::Vitals vitals{{{.uid = WorkerUid(3)}}, {}};
  group_.pass(7200 * kSecond, [&] {
    vitals.workers[0].excused_ns += 200 * kMillisecond;
    group_.feed(vitals);
  });
  EXPECT_FALSE(killed(3));
  EXPECT_EQ(group_.printed, "");
}

// --hang-timeout: also the last holder, and charged.
TEST(StrictHangs, EndTheLastHolderToo) {
  Config config{.workers = 1, .max_restarts = 1, .timing = {}};
  config.timing.strict_hang = 2 * kSecond;
  DrivenGroup group(config);
  group.start();
  group.workers[WorkerUid(1)].phase = Phase::kForward;
  group.pass(1900 * kMillisecond);
  EXPECT_FALSE(group.killed(WorkerUid(1)));
  group.pass(200 * kMillisecond);
  EXPECT_TRUE(group.killed(WorkerUid(1)));
  group.exit(WorkerUid(1), kKilled);
  EXPECT_EQ(group.status().restarts, 1);
  EXPECT_THAT(group.printed, HasSubstr("--hang-timeout allows more"));
}

TEST(SlowStart, IsToldAtThirtySecondsAndAtEachDoublingAndEndsAfterHalfAnHour) {
  DrivenGroup group({.workers = 3, .timing = {}});
  group.feed(event::ZygoteReady{});
  for (int i = 0; i < 3; ++i) {
    const WorkerUid uid = group.take_spawn()->uid;
    group.greet(uid);
    if (i < 2) group.feed(event::Ready{uid, Txn(0), 0, {}});
  }
  const auto told = [&] {
    int count = 0;
    for (std::size_t at = 0;
         (at = group.printed.find("the start has taken", at)) != std::string::npos; ++at)
      ++count;
    return count;
  };
  group.pass(29 * kSecond);
  EXPECT_EQ(told(), 0);
  group.pass(2 * kSecond);
  EXPECT_THAT(group.printed, HasSubstr("the start has taken 30.0 s of 30 min: rank 2 (worker 3) "
                                       "loads its state, asleep\n"));
  group.pass(1700 * kSecond);
  EXPECT_EQ(told(), 6) << group.printed;  // 30, 60, 120, 240, 480, 960
  EXPECT_FALSE(group.exit_code);
  group.pass(100 * kSecond);
  EXPECT_TRUE(group.killed(WorkerUid(1)));
  for (const std::uint64_t uid : {1, 2, 3}) group.exit(WorkerUid(uid), kKilled);
  EXPECT_EQ(group.exit_code, 69);
}

// A forked worker that gets no CPU says nothing; nor does a zygote.
TEST(SlowStart, HelloAndForkExcuseStarvation) {
  DrivenGroup group({.workers = 1, .timing = {}});
  group.feed(event::ZygoteReady{});
  const WorkerUid uid = group.take_spawn()->uid;
  event::Vitals vitals{{{.uid = uid}}, {}};
  group.pass(60 * kSecond, [&] {
    vitals.zygote.excused_ns += 10 * kMillisecond;
    group.feed(vitals);
  });
  EXPECT_FALSE(group.killed(uid)) << "10 s for a fork";
  group.feed(event::Forked{uid, 100});
  group.pass(60 * kSecond, [&] {
    vitals.workers[0].excused_ns += 10 * kMillisecond;
    group.feed(vitals);
  });
  EXPECT_FALSE(group.killed(uid)) << "10 s to a Hello";
  group.pass(10'100 * kMillisecond);
  EXPECT_TRUE(group.killed(uid));
}

TEST_F(BetweenSteps, WhoHasHungUpIsToEnd) {
  group_.feed(event::Closed{WorkerUid(3)});
  group_.pass(1900 * kMillisecond);
  EXPECT_FALSE(killed(3));
  group_.pass(200 * kMillisecond);
  EXPECT_TRUE(killed(3));
  group_.exit(WorkerUid(3), kKilled);
  EXPECT_THAT(group_.printed, HasSubstr("closed its connection"));
}

TEST_F(BetweenSteps, WhoHasLeftMayStayAsLongAsItWants) {
  group_.feed(event::Scale{1, 2});
  group_.feed(event::Left{WorkerUid(3), Txn(5)});
  group_.feed(event::Closed{WorkerUid(3)});
  group_.pass(3600 * kSecond);
  EXPECT_FALSE(killed(3));
}

}  // namespace
}  // namespace lockstep::coord
