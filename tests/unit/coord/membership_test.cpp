// What the coordinator does about troubles that no random schedule waits long enough for.
#include "coord/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/coord/driven_group.h"

namespace lockstep::coord {
namespace {

using testing::HasSubstr;
using testing::Not;

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
    DrivenGroup group(fixed_head(true, 3, 5));
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
