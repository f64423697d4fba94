// A run's keeper over several hosts: how it ends, and who is waited for.
#include "run_hosts.h"

namespace lockstep::coord {
namespace {

TEST_F(RunHostsTest, WhereAProgramDoesNotStartIsTold) {
  hear(1, report::MustEnd{2, "the program ended with exit 2", true});
  EXPECT_EQ(facts.stop_code, 2);
  EXPECT_EQ(facts.stop_reason,
            "node 1: the program ended with exit 2; what it says there tells why");
  EXPECT_TRUE(std::ranges::any_of(turn.actions, [](const Action& action) {
    return std::holds_alternative<action::Print>(action.what);
  })) << "who leads has not seen it";
}

TEST_F(RunHostsTest, AHostThatDiesAsTheRunStopsInOrderIsTakenOut) {
  run();
  hear(0, report::Told{event::Signal{SIGTERM, {}}});
  ASSERT_TRUE(facts.in_order);
  look();
  EXPECT_TRUE(rounds.empty());
  views[1].workers.clear();
  look();
  EXPECT_THAT(rounds, ElementsAre(std::pair(kOther, false)));
  keeper.taken_out({kOther}, true);
  look();
  EXPECT_TRUE(told<order::Begin>(1).empty());
  views[0].workers.clear();
  look();
  EXPECT_EQ(facts.group, Group::kStopped);
}

TEST_F(RunHostsTest, AHostWhoseMembersHaveLeftAsTheRunStopsIsNot) {
  run();
  hear(0, report::Told{event::Signal{SIGTERM, {}}});
  views[1].workers.clear();
  views[1].stopped = true;
  look();
  EXPECT_TRUE(rounds.empty());
}

// Of two launchers each has its own terminal, and one says nothing before the run has stopped.
TEST_F(RunHostsTest, AnInterruptOfEachLauncherIsNoSecondOneAndTwoOfOneAre) {
  run();
  hear(1, report::Told{event::Signal{SIGINT, {}}});
  EXPECT_EQ(facts.stop_reason, "stopped by SIGINT to node 1");
  turn.now += config.timing.same_signal * 2;
  hear(0, report::Told{event::Signal{SIGINT, {}}});
  EXPECT_TRUE(facts.in_order);
  EXPECT_TRUE(told<order::Kill>(0).empty());
  turn.now += config.timing.same_signal * 2;
  hear(0, report::Told{event::Signal{SIGINT, {}}});
  EXPECT_FALSE(facts.in_order);
  EXPECT_EQ(told<order::Kill>(0).size(), 1U);
  EXPECT_EQ(told<order::Kill>(1).size(), 1U);
}

TEST_F(RunHostsTest, WhoseRecordsFailIsTold) {
  run();
  hear(1,
       report::Told{event::RecordsFailed{{ErrorKind::kUnavailable, "write '/out/ledger.jsonl'"}}});
  EXPECT_EQ(facts.stop_reason, "node 1: write '/out/ledger.jsonl'");
}

// That order has not come to the host by which it is told.
TEST_F(RunHostsTest, WhatEndsTheRunIsHeardWhileTheGroupBeginsAgain) {
  run();
  begins = false;
  for (const std::size_t host : {0, 0, 1}) lose_unseen(host);
  look();
  look();
  ASSERT_EQ(told<order::Begin>(1).size(), 1U);
  hear(1, report::Told{event::RecordsFailed{{ErrorKind::kDisk, "write '/out/ledger.jsonl'"}}});
  EXPECT_EQ(facts.stop_reason, "node 1: write '/out/ledger.jsonl'");
}

// It is in the first table, and its host has not seen that yet.
TEST_F(RunHostsTest, AHostThatHasJustBegunLeavesInOrderToo) {
  ready(1, 1);
  ready(0, 1);
  ready(0, 2);
  look();
  hear(0, report::Told{event::Signal{SIGTERM, {}}});
  look();
  EXPECT_TRUE(rounds.empty());
  EXPECT_EQ(told<order::Propose>(1).back().wish.members.size(), 3U);
}

// The other host's word of that is on its way.
TEST_F(RunHostsTest, ANewcomerThatMayBeInATableIsWaitedFor) {
  run();
  lose(1);
  keeper.taken_out({kOther}, true);
  look();
  ready(1, 1);
  look();
  keeper.have_come({views[1].stay});
  look();
  ASSERT_TRUE(told<order::Propose>(0).back().wish.has(views[1].workers[0].uid));
  lose(0);
  lose(0);
  EXPECT_EQ(facts.group, Group::kRunning);
  views[1].workers[0].stage = Stage::kMember;
  look();
  turn.now += 2 * config.timing.orphan_grace;
  while (keeper.fire_timer()) continue;
  look();
  EXPECT_EQ(facts.group, Group::kRunning);
  EXPECT_EQ(facts.hosts[1].standing, Standing::kHere);
}

TEST_F(RunHostsTest, AndNotForLong) {
  run();
  lose(1);
  keeper.taken_out({kOther}, true);
  look();
  ready(1, 1);
  look();
  keeper.have_come({views[1].stay});
  look();
  lose(0);
  lose(0);
  turn.now += config.timing.orphan_grace;
  while (keeper.fire_timer()) continue;
  EXPECT_NE(facts.group, Group::kRunning);
}

TEST_F(RunHostsTest, WhatOnlyALostHostHasAppliedLetsNoNewcomerGoOn) {
  run();
  views[0].workers[0].seen.applied = 8;
  look();
  ASSERT_EQ(keeper.committed(), 8U);
  WorkerView& newcomer = ready(1, 2, Txn(7));
  newcomer.stage = Stage::kMember;
  newcomer.first_txn = Txn(8);
  views[1].workers.erase(views[1].workers.begin());
  look();
  keeper.lose_host(0, "silent");
  look();
  turn.now += config.timing.orphan_grace;
  EXPECT_TRUE(keeper.fire_timer()) << "transaction 7 may be whole nowhere";
}

// A run goes on from a checkpoint, and nobody has applied anything.
TEST_F(RunHostsTest, ALeadersSuccessorKnowsFromWhereTheRunBegan) {
  ready(1, 1, Txn(5));
  ready(0, 1, Txn(5));
  ready(0, 2, Txn(5));
  look();
  for (HostView& view : views)
    for (WorkerView& worker : view.workers) {
      worker.stage = Stage::kMember;
      worker.first_txn = Txn(5);
    }
  look();
  RunKeeper next{config, {2, 1}, facts, turn, [](const auto&, const Order&) {}, {}, {}};
  hand_over(next);
  turn.now += config.timing.orphan_grace;
  EXPECT_FALSE(next.fire_timer());
}

// By a leader's successor, too: the newcomer, which is still applying that, can finish the step.
TEST_F(RunHostsTest, WhatTheDeadHaveAppliedIsKnown) {
  run();
  views[0].workers.back().seen.applied = 4;
  lose_unseen(0);
  EXPECT_EQ(keeper.committed(), 4U);
  for (WorkerView& worker : views[0].workers) worker.first_txn = Txn(4);
  views[1].workers.clear();
  RunKeeper next{config, {2, 1}, facts, turn, [](const auto&, const Order&) {}, {}, {}};
  hand_over(next);
  turn.now += config.timing.orphan_grace;
  EXPECT_FALSE(next.fire_timer());
}

TEST_F(RunHostsTest, AHostOfNewcomersThatCannotFinishTheStepIsTakenOutAsTheRunStops) {
  run();
  views[1].workers[0].first_txn = Txn(1);
  hear(0, report::Told{event::Signal{SIGTERM, {}}});
  look();
  turn.now += config.timing.orphan_grace;
  while (keeper.fire_timer()) continue;
  look();
  EXPECT_THAT(rounds, ElementsAre(std::pair(kOther, false)));
  EXPECT_TRUE(facts.in_order) << "the other host goes on";
}

}  // namespace
}  // namespace lockstep::coord
