// A host's keeper alone: what it reports, and how it obeys.
#include "coord/host_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace lockstep::coord {
namespace {

using testing::ElementsAre;

class HostKeeperTest : public testing::Test {
 protected:
  HostKeeperTest() { facts.hosts.resize(1); }
  template <class What>
  void feed(const What& event) {
    turn.actions.clear();
    keeper.on(event);
  }
  void obey(const Order& order) {
    turn.actions.clear();
    keeper.obey(keeper.obeyed() + 1, order);
  }
  // To `seconds` from the start.
  void pass_to(std::uint64_t seconds) {
    turn.now = seconds * 1'000'000'000;
    turn.actions.clear();
    while (keeper.fire_timer()) continue;
  }
  template <class What>
  std::vector<What> acts() const {
    std::vector<What> found;
    for (const Action& action : turn.actions)
      if (const auto* what = std::get_if<What>(&action.what)) found.push_back(*what);
    return found;
  }
  // So many, in the first table of a run of 8 shares.
  void run(std::uint32_t workers, const std::vector<Host>& hosts = {}) {
    facts.hosts[0].target = workers;
    facts.hosts[0].asked = workers;
    facts.virtual_workers = 8;
    feed(event::ZygoteReady{});
    keeper.spawn_missing();
    Table table{.txn = {}, .generation = {}, .members = {}, .hosts = hosts};
    for (const action::Spawn& spawn : acts<action::Spawn>()) {
      table.members.push_back({spawn.uid, spawn.slot});
      feed(event::Forked{spawn.uid, 100});
      feed(event::Hello{spawn.uid});
      obey(order::Admit{spawn.uid, false});
      feed(event::Ready{spawn.uid, Txn(0)});
    }
    facts.group = Group::kRunning;
    obey(order::FirstTable{table, 0});
    reports.clear();
  }
  template <class What>
  What report() const {
    const auto* what = reports.size() == 1 ? std::get_if<What>(&reports[0]) : nullptr;
    EXPECT_NE(what, nullptr) << reports.size() << " reports";
    return what == nullptr ? What{} : *what;
  }

  Config config{.workers = 3, .timing = {}};
  RunFacts facts;
  Turn turn{1'000'000'000, {}};
  std::vector<Report> reports;
  HostKeeper keeper{config, Stay(), facts, turn, [this](const HostView& view, const Report& what) {
                      facts.hosts[0].heard = view.reported;
                      if (!std::holds_alternative<report::Seen>(what)) reports.push_back(what);
                    }};
};

TEST_F(HostKeeperTest, StartsAsManyWorkersAsTheFactsSayOnceTheyCanBeForked) {
  facts.hosts[0].asked = 3;
  facts.hosts[0].target = 2;
  keeper.spawn_missing();
  EXPECT_TRUE(acts<action::Spawn>().empty());
  feed(event::ZygoteReady{});
  keeper.spawn_missing();
  const auto spawns = acts<action::Spawn>();
  ASSERT_EQ(spawns.size(), 2U);
  EXPECT_EQ(spawns[0].rank, Rank(0));
  EXPECT_EQ(spawns[1].rank, Rank(1));
  EXPECT_NE(spawns[0].slot, spawns[1].slot);
  EXPECT_EQ(spawns[0].world_size, 3);  // of the first start
}

TEST_F(HostKeeperTest, ReportsACrashWithTheSharesThatTheWorkerOwned) {
  run(3);
  feed(event::Exited{WorkerUid(1), {-1, SIGSEGV}});
  EXPECT_EQ(acts<action::AppendDead>().size(), 1U);
  EXPECT_THAT(report<report::Lost>().shares.value(), ElementsAre(0, 1, 2));
  reports.clear();
  feed(event::Exited{WorkerUid(2), {-1, SIGSEGV}});  // with what it has adopted of the first one's
  EXPECT_THAT(report<report::Lost>().shares.value(), ElementsAre(3, 4, 5, 1));
  EXPECT_THAT(keeper.board().dead, ElementsAre(WorkerUid(1), WorkerUid(2)));
}

TEST_F(HostKeeperTest, TellsThatAMemberHasLeftWithTheTableThatStopsTheRun) {
  run(2);
  facts.group = Group::kStopping;
  obey(order::StopInOrder{});
  event::Progress progress;
  progress.tables = {{.txn = Txn(4), .generation = {}, .flags = kStop, .members = {}}};
  for (const std::uint64_t uid : {1, 2}) {
    progress.workers.emplace_back().uid = WorkerUid(uid);
    progress.workers.back().applied = 2 + uid;
  }
  feed(progress);
  feed(event::Left{WorkerUid(1), Txn(3)});  // before, by a signal of its own
  feed(event::Exited{WorkerUid(1), {0, 0}});
  EXPECT_FALSE(keeper.view().stopped);
  feed(event::Left{WorkerUid(2), Txn(4)});
  feed(event::Exited{WorkerUid(2), {0, 0}});
  EXPECT_TRUE(keeper.view().stopped);
}

TEST_F(HostKeeperTest, ADeathFromOutsideCountsForNoShare) {
  run(3);
  feed(event::Exited{WorkerUid(1), {-1, SIGKILL}});
  EXPECT_FALSE(report<report::Lost>().shares.has_value());
  EXPECT_EQ(report<report::Lost>().death.cause, Cause::kFromOutside);
}

TEST_F(HostKeeperTest, WhatCannotBeStartedIsTriedLessOften) {
  run(3);
  facts.hosts[0].target = 4;
  turn.actions.clear();
  keeper.spawn_missing();
  feed(event::SpawnFailed{acts<action::Spawn>().at(0).uid, "no memory"});
  const auto outlook = report<report::Lost>().outlook;
  EXPECT_TRUE(outlook.in_vain && outlook.again);
  EXPECT_EQ(outlook.failed, 1);
  turn.actions.clear();
  keeper.spawn_missing();
  EXPECT_TRUE(acts<action::Spawn>().empty());
  turn.now += 50'000'000;
  keeper.spawn_missing();
  EXPECT_EQ(acts<action::Spawn>().size(), 1U);
}

TEST_F(HostKeeperTest, KillsWhoHasNotEndedWithinTheGraceOfAStop) {
  run(2);
  facts.group = Group::kStopping;
  obey(order::Stop{SIGTERM});
  for (const action::Kill& kill : acts<action::Kill>()) EXPECT_EQ(kill.signal, SIGTERM);
  EXPECT_EQ(acts<action::Kill>().size(), 2U);
  feed(event::Exited{WorkerUid(1), {0, 0}});
  pass_to(30);
  EXPECT_TRUE(acts<action::Kill>().empty());
  pass_to(31);
  ASSERT_EQ(acts<action::Kill>().size(), 1U);
  EXPECT_EQ(acts<action::Kill>()[0].uid, WorkerUid(2));
  EXPECT_EQ(acts<action::Kill>()[0].signal, SIGKILL);
}

TEST_F(HostKeeperTest, SaysWhenTheTimeToLeaveInOrderIsOver) {
  run(2);
  facts.group = Group::kStopping;
  obey(order::StopInOrder{});
  pass_to(31);
  report<report::OutOfTime>();
  EXPECT_EQ(acts<action::Kill>().size(), 2U);
}

class WhereOthersAreOnOtherHosts : public HostKeeperTest {
 protected:
  WhereOthersAreOnOtherHosts() {
    facts.hosts.resize(2);
    facts.hosts[1].stay = {1, 1};
  }
};

// The table is seen when it comes.
TEST_F(WhereOthersAreOnOtherHosts, WhoIsInTheFirstTableLeavesInOrder) {
  run(2, {{{1, 1}, 1}, {{}, 2}});
  facts.group = Group::kStopping;
  facts.in_order = true;
  obey(order::StopInOrder{});
  EXPECT_TRUE(acts<action::Kill>().empty());
}

// All were asked to leave at once, so that tables go on with those of today, as another host, which
// publishes them, knows of. Whoever is behind reads by them what lies in the slots.
TEST_F(WhereOthersAreOnOtherHosts, ASlotIsGivenOutAgainOnceNoTableListsItsDead) {
  run(2, {{{}, 2}});
  Table table = keeper.board().tables.back();
  const std::vector<Member> both = table.members;
  feed(event::Exited{WorkerUid(1), {-1, SIGKILL}});
  table.generation = Generation(1);
  obey(order::Propose{{.txn = {}, .generation = table.generation, .members = {}}, "all leave"});
  const auto see = [&](std::uint64_t txn) {
    event::Progress progress;
    table.txn = Txn(txn);
    progress.tables = {table};
    progress.workers.resize(1);
    progress.workers[0].uid = WorkerUid(2);
    progress.workers[0].current_txn = Txn(txn);
    progress.workers[0].applied = txn;
    feed(progress);
  };
  for (std::uint64_t txn = 1; txn < 9; ++txn) see(txn);
  keeper.spawn_missing();
  EXPECT_EQ(acts<action::Spawn>().at(0).slot, Slot(2));
  table.members = {both[1]};
  for (std::uint64_t txn = 9; txn < 12; ++txn) see(txn);
  facts.hosts[0].target = 3;
  keeper.spawn_missing();
  EXPECT_EQ(acts<action::Spawn>().at(0).slot, Slot(0));
}

TEST_F(HostKeeperTest, WhoeverStandsStillAsTheRunStopsIsEvicted) {
  config.timing.orderly = 3600'000'000'000;
  run(2);
  facts.group = Group::kStopping;
  facts.in_order = true;
  obey(order::StopInOrder{});
  for (std::uint64_t minute = 0; acts<action::Kill>().empty() && minute < 15; ++minute) {
    pass_to(2 + 60 * minute);
    event::Progress progress;
    progress.workers.resize(2);
    progress.workers[0].uid = WorkerUid(1);
    progress.workers[0].phase = Phase::kForward;
    progress.workers[1].uid = WorkerUid(2);
    progress.workers[1].phase = Phase::kExchange;
    progress.workers[1].items = 8;
    feed(progress);
    keeper.watch_standstills();
  }
  ASSERT_EQ(acts<action::Kill>().size(), 1U);
  EXPECT_EQ(acts<action::Kill>()[0].uid, WorkerUid(1));
  feed(event::Exited{WorkerUid(1), {-1, SIGKILL}});
  EXPECT_THAT(acts<action::Print>().at(0).text, testing::HasSubstr("hung in forward for"));
}

TEST_F(HostKeeperTest, WhoeverClosesItsConnectionAsTheRunStopsIsEvicted) {
  run(2);
  facts.group = Group::kStopping;
  facts.in_order = true;
  obey(order::StopInOrder{});
  feed(event::Closed{WorkerUid(1)});
  feed(event::Left{WorkerUid(2), Txn(3)});
  feed(event::Closed{WorkerUid(2)});
  pass_to(3);
  ASSERT_EQ(acts<action::Kill>().size(), 1U);
  EXPECT_EQ(acts<action::Kill>()[0].uid, WorkerUid(1));
}

TEST_F(HostKeeperTest, TheHighestRanksLeaveWhenItIsToHaveFewerWorkers) {
  run(3);
  facts.hosts[0].target = 2;
  obey(order::Shrink{});
  std::vector<WorkerUid> leaving;
  for (const WorkerView& worker : keeper.view().workers)
    if (worker.leaving()) leaving.push_back(worker.uid);
  EXPECT_THAT(leaving, ElementsAre(WorkerUid(3)));
}

TEST_F(HostKeeperTest, NobodyIsStartedForALossThatTheRunHasNotHeardOf) {
  run(2);
  feed(event::Exited{WorkerUid(2), {-1, SIGKILL}});
  --facts.hosts[0].heard;
  keeper.spawn_missing();
  EXPECT_TRUE(acts<action::Spawn>().empty());
  ++facts.hosts[0].heard;
  keeper.spawn_missing();
  EXPECT_EQ(acts<action::Spawn>().size(), 1U);
}

TEST_F(HostKeeperTest, ANewStartOfTheGroupHasAFreshBoard) {
  run(3);
  feed(event::Exited{WorkerUid(1), {-1, SIGKILL}});
  facts.group = Group::kRestarting;
  obey(order::Kill{"the group starts again"});
  feed(event::Exited{WorkerUid(2), {-1, SIGKILL}});
  feed(event::Exited{WorkerUid(3), {-1, SIGKILL}});
  facts.group = Group::kStarting;
  facts.restarts = 1;
  obey(order::Begin{});
  EXPECT_EQ(acts<action::RestartGroup>().size(), 1U);
  EXPECT_TRUE(keeper.board().dead.empty() && keeper.board().tables.empty());
  keeper.spawn_missing();
  const auto spawns = acts<action::Spawn>();
  ASSERT_EQ(spawns.size(), 3U);
  EXPECT_EQ(spawns[0].uid,
            WorkerUid(4));  // uids are never used again, slots of the fresh board are
  EXPECT_EQ(spawns[0].slot, Slot(0));
  EXPECT_EQ(spawns[0].restart_count, 1);
}

}  // namespace
}  // namespace lockstep::coord
