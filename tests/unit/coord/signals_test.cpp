// What signals that ask for an end mean: to the launcher, to one worker, to all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "unit/coord/driven_group.h"

namespace lockstep::coord {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Three members that train.
class Signals : public testing::Test {
 protected:
  Signals() : group_({.workers = 3, .timing = {}}) {
    group_.start();
    group_.pass(100 * kMillisecond);
  }
  void come(std::initializer_list<std::uint64_t> uids, int number = SIGTERM) {
    for (const std::uint64_t uid : uids) group_.workers[WorkerUid(uid)].signal = number;
  }
  bool killed(std::uint64_t uid) const { return group_.killed(WorkerUid(uid)); }
  // The flags and members of the last proposal.
  std::optional<Table> wish() {
    std::optional<Table> last;
    while (const auto written = group_.take<action::WriteProposal>()) last = written->wish;
    return last;
  }

  DrivenGroup group_;
};

TEST_F(Signals, ToTheLauncherStopsInOrderAtOnce) {
  group_.feed(event::Signal{SIGHUP});
  EXPECT_EQ(group_.status().state, "stopping");
  EXPECT_EQ(wish()->flags, kStop);
  come({1, 2, 3}, SIGHUP);  // to all processes of the job
  group_.pass(29 * kSecond);
  EXPECT_FALSE(killed(1) || killed(2) || killed(3));
  for (const std::uint64_t uid : {1, 2, 3}) group_.exit(WorkerUid(uid), {0, 0});
  EXPECT_EQ(group_.exit_code, 128 + SIGHUP);
}

// Nothing of a program with transactions dies of TERM.
TEST_F(Signals, AfterTheTimeForTheOrderComesKill) {
  group_.feed(event::Signal{SIGTERM});
  group_.pass(31 * kSecond);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(group_.take<action::Kill>()->signal, SIGKILL);
  EXPECT_FALSE(group_.take<action::Kill>());
  EXPECT_THAT(group_.printed, HasSubstr("rank 0 (worker 1), rank 1 (worker 2), rank 2 (worker 3): "
                                        "not ended 30.0 s after they were to leave in order "
                                        "(--shutdown-timeout); killed\n"));
}

TEST_F(Signals, AnErrorOfOneKillsTheOthersAtOnce) {
  group_.feed(event::Failed{WorkerUid(2), {ErrorKind::kBadData, "no picture"}});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(group_.take<action::Kill>()->signal, SIGKILL);
  for (const std::uint64_t uid : {1, 2, 3}) group_.exit(WorkerUid(uid), {-1, SIGKILL});
  EXPECT_EQ(group_.exit_code, 65);
}

TEST_F(Signals, ToAllWorkersStopTheRunAfterASecond) {
  come({1, 2});
  group_.pass(500 * kMillisecond);
  come({3});
  EXPECT_EQ(group_.status().state, "running");
  group_.pass(490 * kMillisecond);
  EXPECT_EQ(group_.status().state, "running");
  group_.pass(30 * kMillisecond);
  EXPECT_EQ(group_.status().state, "stopping");
  EXPECT_EQ(wish()->flags, kStop);
  EXPECT_THAT(group_.printed,
              HasSubstr("stopped by SIGTERM to all workers; the workers leave at "));
  EXPECT_EQ(group_.status().replacements_left, 10);
  for (const std::uint64_t uid : {1, 2, 3}) group_.exit(WorkerUid(uid), {0, 0});
  EXPECT_EQ(group_.exit_code, 143);
}

TEST_F(Signals, ToTheWorkersFirstAndThenToTheLauncherAreTheLaunchers) {
  come({1, 2, 3}, SIGUSR1);
  group_.pass(300 * kMillisecond);
  EXPECT_EQ(group_.status().state, "running");
  group_.feed(event::Signal{SIGUSR1});
  EXPECT_EQ(group_.status().state, "stopping");
  group_.pass(2 * kSecond);
  for (const std::uint64_t uid : {1, 2, 3}) group_.exit(WorkerUid(uid), {0, 0});
  EXPECT_EQ(group_.exit_code, 128 + SIGUSR1);
  EXPECT_THAT(group_.printed, Not(HasSubstr("leaves at the next step;")));
}

TEST_F(Signals, ToSomeTakeThemOutAndTheyAreReplaced) {
  come({1, 3}, SIGINT);
  group_.pass(990 * kMillisecond);
  EXPECT_THAT(group_.printed, IsEmpty());
  wish();
  group_.pass(30 * kMillisecond);
  EXPECT_EQ(group_.status().state, "running");
  EXPECT_THAT(group_.printed, HasSubstr("rank 0 (worker 1) got SIGINT and leaves at the next step; "
                                        "a replacement is started (9 of 10 left)\n"));
  EXPECT_THAT(group_.printed, HasSubstr("rank 2 (worker 3) got SIGINT and leaves"));
  EXPECT_FALSE(killed(1) || killed(3)) << "they finish the step";
  const auto next = wish();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->flags, kNone);
  ASSERT_EQ(next->members.size(), 1U);
  EXPECT_EQ(next->members[0].uid, WorkerUid(2));
  EXPECT_FALSE(group_.take_spawn()) << "ranks are free when their owners are gone";
  for (const std::uint64_t uid : {1, 3}) {
    group_.feed(event::Left{WorkerUid(uid), Txn(1)});
    group_.exit(WorkerUid(uid), {0, 0});
  }
  EXPECT_TRUE(group_.take_spawn());
  EXPECT_TRUE(group_.take_spawn());
  EXPECT_FALSE(group_.take<action::AppendDead>()) << "nobody waits for them";
  const auto incident = group_.take<action::RecordIncident>();
  ASSERT_TRUE(incident);
  EXPECT_EQ(incident->incident.victims[0].cause, "SIGINT");
}

TEST_F(Signals, ToOneWithoutAReplacementLeftShrinksTheGroup) {
  DrivenGroup group({.workers = 2, .max_replacements = 0, .timing = {}});
  group.start();
  group.workers[WorkerUid(2)].signal = SIGTERM;
  group.pass(1100 * kMillisecond);
  EXPECT_THAT(group.printed,
              HasSubstr("the others go on without it: --max-replacements 0 is spent"));
  EXPECT_EQ(group.status().target_world_size, 1);
}

TEST_F(Signals, ToTheOnlyWorkerStopTheRun) {
  DrivenGroup group({.workers = 1, .max_restarts = 3, .timing = {}});
  group.start();
  group.workers[WorkerUid(1)].signal = SIGTERM;
  group.pass(1100 * kMillisecond);
  EXPECT_EQ(group.status().state, "stopping");
  group.exit(WorkerUid(1), {0, 0});
  EXPECT_EQ(group.exit_code, 143);
}

TEST_F(Signals, OfDifferentNumbersToAllAreTheFirstOnes) {
  come({1, 3}, SIGINT);
  come({2}, SIGTERM);
  group_.pass(1100 * kMillisecond);
  EXPECT_EQ(group_.status().state, "stopping");
  EXPECT_THAT(group_.printed, HasSubstr("stopped by SIGINT to all workers"));
}

// It could not have noted one, and is evicted any moment.
TEST_F(Signals, AreNotAskedOfWhoIsStopped) {
  DrivenGroup group({.workers = 3, .timing = {.stop_grace = 5 * kSecond}});
  group.start();
  group.pass(100 * kMillisecond);
  group.feed(event::Stopped{WorkerUid(3)});
  for (const std::uint64_t uid : {1, 2}) group.workers[WorkerUid(uid)].signal = SIGTERM;
  group.pass(1100 * kMillisecond);
  EXPECT_EQ(group.status().state, "stopping");
}

// Else they would be killed at the end of --shutdown-timeout, and their work be lost.
TEST_F(Signals, AStopInOrderContinuesWhoIsStopped) {
  for (const int worker : {1, 2, 3}) group_.feed(event::Stopped{WorkerUid(worker)});
  group_.feed(event::Continued{WorkerUid(2)});
  group_.feed(event::Signal{SIGTERM});
  for (const int worker : {1, 3}) {
    const auto sent = group_.take<action::Kill>();
    ASSERT_TRUE(sent);
    EXPECT_EQ(sent->uid, WorkerUid(worker));
    EXPECT_EQ(sent->signal, SIGCONT);
  }
  EXPECT_FALSE(group_.take<action::Kill>());
}

TEST_F(Signals, OfANewcomerCostItAlone) {
  group_.exit(WorkerUid(3), {-1, SIGKILL});
  const auto spawn = group_.take_spawn();
  ASSERT_TRUE(spawn);
  group_.greet(spawn->uid);
  group_.workers[spawn->uid].signal = SIGTERM;
  group_.pass(1100 * kMillisecond);
  EXPECT_TRUE(group_.killed(spawn->uid));
  EXPECT_FALSE(killed(1) || killed(2));
  group_.exit(spawn->uid, {-1, SIGKILL});
  group_.pass(60 * kMillisecond);
  EXPECT_TRUE(group_.take_spawn());
  EXPECT_EQ(group_.status().replacements_left, 8);  // one incident, but two tries
}

// The leaver is the last that holds the state: it stays, and its signal has been answered.
TEST_F(Signals, OfOneThatHasToStayDoNotEndTheRun) {
  DrivenGroup group({.workers = 2, .timing = {}});
  group.start();
  group.pass(100 * kMillisecond);
  group.workers[WorkerUid(1)].signal = SIGTERM;
  group.pass(1100 * kMillisecond);
  group.exit(WorkerUid(2), {-1, SIGKILL});
  group.pass(3 * kSecond);
  EXPECT_EQ(group.status().state, "running");
  EXPECT_FALSE(group.killed(WorkerUid(1)));
  EXPECT_TRUE(group.take_spawn());
}

TEST_F(Signals, ASecondInterruptOfAPersonEndsAtOnceAndAnEchoDoesNot) {
  group_.feed(event::Signal{SIGINT});
  group_.now += 2 * kMillisecond;
  group_.feed(event::Signal{SIGINT});  // timeout(1): to its child, and to the group
  EXPECT_FALSE(killed(1));
  group_.pass(200 * kMillisecond);
  group_.feed(event::Signal{SIGTERM});
  EXPECT_FALSE(killed(1));
  group_.feed(event::Signal{SIGINT});
  EXPECT_TRUE(killed(1) && killed(2) && killed(3));
}

TEST_F(Signals, InterruptsOneAfterTheOtherAreNoEchoForEver) {
  for (int i = 0; i < 3; ++i) {
    group_.feed(event::Signal{SIGINT});
    EXPECT_FALSE(killed(1));
    group_.pass(200 * kMillisecond);
  }
  group_.feed(event::Signal{SIGINT});
  EXPECT_TRUE(killed(1) && killed(2) && killed(3));
}

TEST(SignalsAtTheStart, OfTheLauncherAloneCount) {
  DrivenGroup group({.workers = 2, .timing = {}});
  group.feed(event::ZygoteReady{});
  while (const auto spawn = group.take_spawn()) group.greet(spawn->uid);
  for (auto& [uid, seen] : group.workers) seen.signal = SIGTERM;
  group.pass(3 * kSecond);
  EXPECT_EQ(group.status().state, "starting");
  group.feed(event::Signal{SIGTERM});
  EXPECT_EQ(group.status().state, "stopping");
  EXPECT_EQ(group.take<action::Kill>()->signal, SIGKILL);
}

TEST(SignalsAtTheEnd, GoToTheProgramAsWhatTheyWere) {
  DrivenGroup group({.workers = 1, .timing = {}});
  group.start();
  group.feed(event::Finished{WorkerUid(1)});
  group.feed(event::Signal{SIGINT});
  EXPECT_EQ(group.take<action::Kill>()->signal, SIGINT);
  group.pass(31 * kSecond);
  EXPECT_EQ(group.take<action::Kill>()->signal, SIGKILL);
}

// Scripts, and loops over a process group.
class WithoutTransactions : public testing::TestWithParam<bool> {
 protected:
  WithoutTransactions() : group_(fixed_head(GetParam(), 3, 1)) { start(group_); }
  static void start(DrivenGroup& group) {
    group.elastic = false;
    if (!GetParam()) group.start();
    while (const auto spawn = group.take_spawn()) {
      group.feed(event::Forked{spawn->uid, 100});
      group.workers[spawn->uid].uid = spawn->uid;
    }
  }
  DrivenGroup group_;
};

TEST_P(WithoutTransactions, GetEachSignalOnceAsWhatItWas) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1}) {
    DrivenGroup group(fixed_head(GetParam(), 3));
    start(group);
    group.feed(event::Signal{number});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(group.take<action::Kill>()->signal, number);
    EXPECT_FALSE(group.take<action::Kill>());
    group.exit(WorkerUid(2), {0, 0});
    group.pass(31 * kSecond);
    EXPECT_EQ(group.take<action::Kill>()->signal, SIGKILL);
    const std::string late = GetParam() ? "rank 0, rank 2" : "rank 0 (worker 1), rank 2 (worker 3)";
    EXPECT_THAT(group.printed, HasSubstr(late + ": not ended 30.0 s after they were told to end "
                                                "(--shutdown-timeout)"));
  }
}

TEST_P(WithoutTransactions, ADeathByOneWaitsForTheLaunchersOwn) {
  group_.exit(WorkerUid(2), {-1, SIGTERM});
  group_.pass(900 * kMillisecond);
  EXPECT_EQ(group_.status().state, "running");
  EXPECT_EQ(group_.status().restarts, 0);
  group_.feed(event::Signal{SIGTERM});
  for (const std::uint64_t uid : {1, 3}) group_.exit(WorkerUid(uid), {-1, SIGTERM});
  EXPECT_EQ(group_.exit_code, 143);
  EXPECT_EQ(group_.status().restarts, 0);
}

TEST_P(WithoutTransactions, AllDeathsByOneDo) {
  for (const std::uint64_t uid : {1, 2, 3}) group_.exit(WorkerUid(uid), {128 + SIGUSR1, 0});
  group_.pass(500 * kMillisecond);
  EXPECT_FALSE(group_.exit_code) << "a shell says it so, and somebody may still come";
  group_.feed(event::Signal{SIGUSR1});
  EXPECT_EQ(group_.exit_code, 128 + SIGUSR1);
}

TEST_P(WithoutTransactions, WithoutItTheGroupStartsAgain) {
  group_.exit(WorkerUid(2), {-1, SIGTERM});
  group_.exit(WorkerUid(1), {1, 0});  // missed its peer
  group_.pass(990 * kMillisecond);
  EXPECT_EQ(group_.status().state, "running");
  group_.pass(30 * kMillisecond);
  EXPECT_EQ(group_.status().state, "restarting");
  EXPECT_THAT(group_.printed, HasSubstr("SIGTERM"));
  group_.exit(WorkerUid(3), {-1, SIGKILL});
  EXPECT_EQ(group_.status().restarts, 1);
}

TEST_P(WithoutTransactions, OtherDeathsDoNotWait) {
  group_.exit(WorkerUid(2), {-1, SIGKILL});
  EXPECT_EQ(group_.status().state, "restarting");
}

INSTANTIATE_TEST_SUITE_P(Both, WithoutTransactions, testing::Bool(),
                         [](const auto& of) { return of.param ? "plain" : "loop"; });

}  // namespace
}  // namespace lockstep::coord
