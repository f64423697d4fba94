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
  EXPECT_EQ(group.status().state, "running");
  EXPECT_EQ(group.status().world_size, 1);
  EXPECT_EQ(group.status().target_world_size, 1);
  EXPECT_THAT(group.printed, HasSubstr("Too many open files); the others go on without it"));
  group.feed(event::Signal{SIGTERM});
  EXPECT_EQ(group.status().state, "stopping");
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
  EXPECT_EQ(group.status().target_world_size, 2);
  EXPECT_EQ(group.status().replacements_left, 8);
  EXPECT_EQ(group.status().max_replacements, 10);
}

// Restarts that get no further, by the death of the only worker; `own`: which of them crashes.
int code_of_restarts_in_vain(int own, std::string& printed) {
  DrivenGroup group({.workers = 1, .max_restarts = 100, .max_replacements = 0, .timing = {}});
  for (int i = 0; !group.exit_code && i < 10; ++i) {
    group.start();
    group.exit(group.workers.begin()->first, i == own ? ExitStatus{-1, SIGSEGV} : kKilled);
    group.pass(100 * kMillisecond);
  }
  printed = group.printed;
  return group.exit_code.value_or(-1);
}

TEST(Restarts, InVainAreResumableIfAllCameFromOutside) {
  std::string printed;
  EXPECT_EQ(code_of_restarts_in_vain(-1, printed), 75);
  EXPECT_THAT(printed, HasSubstr("3 restarts in a row got no further than transaction 0"));
  for (const int own : {1, 3}) EXPECT_EQ(code_of_restarts_in_vain(own, printed), 1) << printed;
}

// One of several cannot be started while others are on their way.
TEST(Plain, AWorkerThatComesAfterTheStopStopsAsWell) {
  for (const int failed : {0, 1, 2}) {
    DrivenGroup group(
        {.workers = 3, .max_restarts = 5, .zygote = false, .plain = true, .timing = {}});
    std::vector<WorkerUid> uids;
    while (const auto spawn = group.take_spawn()) uids.push_back(spawn->uid);
    ASSERT_EQ(uids.size(), 3U);
    for (int i = 0; i < 3; ++i) {
      if (i == failed)
        group.feed(event::SpawnFailed{uids[i], "Resource temporarily unavailable"});
      else
        group.feed(event::Forked{uids[i], 100 + i});
    }
    EXPECT_NE(group.status().state, "running");
    for (int i = 0; i < 3; ++i)
      if (i != failed) group.exit(uids[i], {-1, SIGTERM});
    EXPECT_EQ(group.exit_code, 69) << group.printed;
    EXPECT_FALSE(group.take_spawn());
  }
}

// The agent is frozen together with its workers: that time is nobody's.
TEST(AgentPause, DoesNotCutAnOrderlyStopShort) {
  for (const bool elastic : {true, false}) {
    DrivenGroup group({.workers = 2, .timing = {}});
    group.elastic = elastic;
    group.start();
    group.feed(event::Signal{SIGTERM});
    while (group.take<action::Kill>()) {  // of a loop of its own: TERM, and the same time
    }
    group.now += 3600 * kSecond;
    group.pass(29 * kSecond);
    EXPECT_FALSE(group.killed(WorkerUid(1)));
    group.pass(2 * kSecond);
    EXPECT_EQ(group.take<action::Kill>()->signal, SIGKILL);
  }
}

TEST(AgentPause, DoesNotShortenTheWaitForTheLaunchersSignal) {
  DrivenGroup group({.workers = 2, .max_restarts = 1, .timing = {}});
  group.start();
  group.pass(100 * kMillisecond);
  for (auto& [uid, seen] : group.workers) seen.signal = SIGTERM;
  group.pass(20 * kMillisecond);
  group.now += 3600 * kSecond;
  group.pass(900 * kMillisecond);
  EXPECT_EQ(group.status().state, "running");
  group.pass(200 * kMillisecond);
  EXPECT_EQ(group.status().state, "stopping");
}

TEST(AgentPause, DoesNotShortenTheStart) {
  DrivenGroup group({.workers = 2, .timing = {}});
  group.feed(event::ZygoteReady{});
  while (const auto spawn = group.take_spawn()) group.greet(spawn->uid);
  group.now += 3600 * kSecond;
  group.pass(1790 * kSecond);
  EXPECT_EQ(group.status().state, "starting");
  group.pass(20 * kSecond);
  EXPECT_THAT(group.printed, HasSubstr("not all workers were ready within 1800.0 s"));
}

TEST(AgentPause, LeavesNewcomersTheirTimeWithoutMembers) {
  DrivenGroup group({.workers = 2, .max_restarts = 1, .timing = {}});
  group.start();
  group.exit(WorkerUid(2), kKilled);
  const auto spawn = group.take_spawn();
  ASSERT_TRUE(spawn);
  group.greet(spawn->uid);
  group.feed(event::Ready{spawn->uid, Txn(0), 0, {}});
  // The table of transaction 7 lists the newcomer; the only one who can finish 6 dies.
  const Table next{Txn(7), Generation(9), kNone, {{WorkerUid(1), {}}, {spawn->uid, spawn->slot}}};
  group.workers[WorkerUid(1)].applied = 6;
  group.feed(event::Progress{{group.workers[WorkerUid(1)]}, {next}});
  group.exit(WorkerUid(1), kKilled);
  group.now += 3600 * kSecond;
  group.pass(900 * kMillisecond);
  EXPECT_EQ(group.status().state, "running");
  group.pass(200 * kMillisecond);
  EXPECT_EQ(group.status().state, "restarting");
}

// A signal ends each zygote as soon as it is there, for `time`.
void kill_zygotes(DrivenGroup& group, std::uint64_t time) {
  while (group.take<action::RestartZygote>()) {
  }
  group.feed(event::ZygoteLost{kKilled});
  group.pass(time, [&] {
    while (group.take<action::RestartZygote>()) group.feed(event::ZygoteLost{kKilled});
  });
}

TEST(Zygote, GivenUpWhileTheGroupRunsIsTriedAgainWhenItStartsAgain) {
  DrivenGroup group({.workers = 2, .max_restarts = 1, .timing = {}});
  group.start();
  kill_zygotes(group, kSecond);
  EXPECT_THAT(group.printed, HasSubstr("no more workers are started"));
  group.pass(kSecond);
  EXPECT_FALSE(group.take<action::RestartZygote>());
  group.exit(WorkerUid(1), kKilled);
  group.exit(WorkerUid(2), kKilled);
  EXPECT_TRUE(group.take<action::RestartGroup>());
  EXPECT_TRUE(group.take<action::RestartZygote>());
  group.feed(event::ZygoteReady{});
  EXPECT_TRUE(group.take_spawn());
}

// A worker that a zygote forked just before its end says Hello after it.
TEST(Zygote, AGreetingFromTheLastOneDoesNotCallOffTheNext) {
  DrivenGroup group({.workers = 2, .timing = {}});
  group.start();
  while (group.take<action::RestartZygote>()) {
  }
  group.feed(event::ZygoteLost{kKilled});
  ASSERT_TRUE(group.take<action::RestartZygote>());
  group.feed(event::ZygoteReady{});
  group.exit(WorkerUid(2), kKilled);
  const auto spawn = group.take_spawn();
  ASSERT_TRUE(spawn);
  group.feed(event::Forked{spawn->uid, 100});
  group.feed(event::ZygoteLost{kKilled});
  group.feed(event::Hello{spawn->uid});
  group.pass(kSecond);
  EXPECT_TRUE(group.take<action::RestartZygote>());
}

TEST(Zygote, GivenUpIsNotForgottenAtALateGreeting) {
  DrivenGroup group({.workers = 2, .max_restarts = 1, .timing = {}});
  group.start();
  group.exit(WorkerUid(2), kKilled);
  const auto spawn = group.take_spawn();
  ASSERT_TRUE(spawn);
  group.feed(event::Forked{spawn->uid, 100});
  kill_zygotes(group, kSecond);
  group.greet(spawn->uid);
  group.feed(event::Scale{1, 8});
  const auto reply = group.take<action::Reply>();
  ASSERT_TRUE(reply);
  EXPECT_FALSE(reply->ok) << reply->text;
  group.exit(WorkerUid(1), kKilled);
  group.exit(spawn->uid, kKilled);
  EXPECT_TRUE(group.take<action::RestartGroup>());
  EXPECT_TRUE(group.take<action::RestartZygote>());
}

TEST(Zygote, KilledFromOutsideBeforeAnyWorkerIsResumable) {
  for (const int restarts : {0, 2}) {
    DrivenGroup group({.workers = 2, .max_restarts = restarts, .timing = {}});
    const std::uint64_t begin = group.now;
    kill_zygotes(group, 10 * kSecond);
    EXPECT_EQ(group.exit_code, 75) << group.printed;
    // Five tries for each start, with pauses of 50, 100 and 200 ms.
    EXPECT_GE(group.now - begin, static_cast<std::uint64_t>(restarts + 1) * 350 * kMillisecond);
    EXPECT_EQ(group.status().restarts, restarts);
  }
}

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
  bool killed(std::uint64_t uid) const { return group_.killed(WorkerUid(uid)); }
  WorkerProgress& third() { return group_.workers[WorkerUid(3)]; }

  DrivenGroup group_;
};

TEST_F(BetweenSteps, WhoLetsTheOthersWaitForTenMinutesIsHung) {
  let_wait(1, 5);
  let_wait(2, 5);
  group_.pass(599 * kSecond);
  EXPECT_FALSE(killed(3));
  group_.pass(2 * kSecond);
  EXPECT_TRUE(killed(3));
  EXPECT_FALSE(killed(1) || killed(2));
}

TEST_F(BetweenSteps, AskingForTheNextStepAgainAndAgainIsNoProgress) {
  let_wait(1, 5);
  let_wait(2, 5);
  group_.pass(601 * kSecond, [&] { ++third().progress; });
  EXPECT_TRUE(killed(3));
}

TEST_F(BetweenSteps, ASlowOneIsReplacedForNothingAndTheNextHasTwiceTheTime) {
  let_wait(1, 5);
  let_wait(2, 5);
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
  let_wait(1, 5);
  let_wait(2, 5);
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
  let_wait(1, 5);
  let_wait(2, 5);
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
  let_wait(1, 5);
  let_wait(2, 5);
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
  let_wait(1, 5);
  let_wait(2, 5);
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
  EXPECT_FALSE(group.killed(uid)) << "2 s to a Hello";
  group.pass(2100 * kMillisecond);
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

// To kill it would end the run, or cost it the way back to a checkpoint.
TEST(Stops, OfTheLastThatRunsAreWaitedFor) {
  DrivenGroup group({.workers = 3, .timing = {}});
  group.start();
  group.pass(100 * kMillisecond);
  for (const std::uint64_t uid : {1, 2, 3}) group.feed(event::Stopped{WorkerUid(uid)});
  group.pass(30 * kSecond);
  for (const std::uint64_t uid : {1, 2, 3}) EXPECT_FALSE(group.killed(WorkerUid(uid))) << uid;
  EXPECT_THAT(group.printed, HasSubstr("rank 2 (worker 3) is stopped for 1.0 s, and nobody else "
                                       "could go on: the run waits for its SIGCONT\n"));
  group.feed(event::Continued{WorkerUid(2)});
  group.pass(500 * kMillisecond);  // the others' grace begins anew
  group.feed(event::Continued{WorkerUid(1)});
  EXPECT_FALSE(group.killed(WorkerUid(3)));
  group.pass(600 * kMillisecond);
  EXPECT_TRUE(group.killed(WorkerUid(3)));
  EXPECT_FALSE(group.killed(WorkerUid(1)));
  EXPECT_FALSE(group.killed(WorkerUid(2)));
}

TEST(Stops, OfAllEndInARestartWhileOneIsLeft) {
  DrivenGroup group({.workers = 2, .max_restarts = 1, .timing = {}});
  group.start();
  group.pass(100 * kMillisecond);
  for (const std::uint64_t uid : {1, 2}) group.feed(event::Stopped{WorkerUid(uid)});
  group.pass(2 * kSecond);
  for (const std::uint64_t uid : {1, 2}) EXPECT_TRUE(group.killed(WorkerUid(uid))) << uid;
}

TEST(Deaths, OfTheLastHolderPromiseNoReplacement) {
  DrivenGroup group({.workers = 1, .timing = {}});
  group.start();
  group.pass(100 * kMillisecond);
  group.exit(WorkerUid(1), kKilled);
  EXPECT_THAT(group.printed, HasSubstr("died (SIGKILL); nobody else holds the state\n"));
  EXPECT_THAT(group.printed, Not(HasSubstr("a replacement is started")));
}

}  // namespace
}  // namespace lockstep::coord
