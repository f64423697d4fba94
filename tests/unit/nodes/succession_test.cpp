// Whose turn it is to lead, whom an agent follows, and who gives up; and what a leader after a
// leader waits for.
#include "nodes/succession.h"

#include <gtest/gtest.h>

#include <csignal>

#include "nodes_test.h"

namespace lockstep::nodes {
namespace {

constexpr std::uint64_t kStart = 1000 * kSecond, kTurn = kSecond / 2;

class SuccessionTest : public testing::Test {
 protected:
  static Succession at(int own) { return {3, own, {kL, kSecond}, kStart}; }
  // It has had no leader since kStart, and looks.
  static Succession looking(int own) {
    Succession one = at(own);
    one.look(kStart, kStart);
    return one;
  }
};

TEST_F(SuccessionTest, TheFirstPlaceLeadsAsSoonAsTheOthersHaveSaidThatNobodyDoes) {
  Succession first = looking(0);
  EXPECT_FALSE(first.may_lead(kStart));
  first.found_nobody(1, kStart);
  EXPECT_FALSE(first.may_lead(kStart));
  first.found_nobody(2, kStart);
  EXPECT_TRUE(first.may_lead(kStart));
  EXPECT_FALSE(at(0).may_lead(kStart)) << "it has not looked";
}

TEST_F(SuccessionTest, TheFirstPlaceDoesNotWaitForASilentOne) {
  Succession first = looking(0);
  first.found_nobody(1, kStart);
  first.found_silence(2);
  EXPECT_FALSE(first.may_lead(kStart + kSecond / 10));
  EXPECT_TRUE(first.may_lead(kStart + kSecond / 2));
}

TEST_F(SuccessionTest, ALaterPlaceGivesEarlierOnesTheirTime) {
  for (const int own : {1, 2}) {
    const std::uint64_t turn = static_cast<std::uint64_t>(own) * kTurn;
    Succession refused = looking(own), silent = looking(own);
    for (int place = 0; place < 3; ++place) refused.found_nobody(place, kStart);
    EXPECT_FALSE(refused.may_lead(kStart + kSecond + turn - 1));
    EXPECT_TRUE(refused.may_lead(kStart + kSecond + turn));
    EXPECT_FALSE(silent.may_lead(kStart + kL + turn - 1));
    EXPECT_TRUE(silent.may_lead(kStart + kL + turn));
  }
}

TEST_F(SuccessionTest, NobodyLeadsWhereAnotherDoes) {
  for (const int own : {0, 1, 2})
    for (const int other : {0, 1, 2}) {
      Succession one = looking(own);
      for (int place = 0; place < 3; ++place) one.found_nobody(place, kStart);
      one.found({other, 0, false}, kStart + kSecond);
      EXPECT_FALSE(one.may_lead(kStart + 10 * kL)) << own << " " << other;
      EXPECT_EQ(one.whom_to_follow(-1, false), other);
      EXPECT_EQ(one.whom_to_follow(other, false), std::nullopt) << "it does";
    }
}

TEST_F(SuccessionTest, ALeaderThatFallsSilentHasLFromItsLastAnswer) {
  Succession one = looking(1);
  one.found_nobody(2, kStart);
  one.found({0, 1, true}, kStart + 3 * kL);
  one.found_silence(0);
  EXPECT_FALSE(one.may_lead(kStart + 4 * kL));
  EXPECT_TRUE(one.may_lead(kStart + 4 * kL + kTurn));
}

TEST_F(SuccessionTest, WhoHasNoPlaceNeverLeads) {
  Succession one = looking(-1);
  for (int place = 0; place < 3; ++place) one.found_nobody(place, kStart);
  EXPECT_FALSE(one.may_lead(kStart + 100 * kL));
  one.may_lead_at(2);  // its name is known at last
  EXPECT_TRUE(one.may_lead(kStart + 100 * kL));
  one.may_lead_at(1);
  EXPECT_EQ(one.own(), 2);
}

TEST_F(SuccessionTest, WhoIsLedStaysUnlessThatOneIsGone) {
  Succession one = looking(-1);
  one.found({1, 2, true}, kStart);
  EXPECT_EQ(one.whom_to_follow(0, true), std::nullopt);
  EXPECT_EQ(one.whom_to_follow(0, false), 1);
  one.found_nobody(0, kStart);
  EXPECT_EQ(one.whom_to_follow(0, true), 1);
}

TEST_F(SuccessionTest, OfTwoOneGoesOn) {
  const Lead idle{0, 3, false}, later{1, 3, false}, newer{2, 4, false}, active{2, 1, true};
  EXPECT_TRUE(goes_on(idle, later));
  EXPECT_TRUE(goes_on(newer, idle));
  EXPECT_TRUE(goes_on(active, newer));
  for (const Lead& one : {idle, later, newer, active})
    for (const Lead& other : {idle, later, newer, active})
      EXPECT_EQ(goes_on(one, other) + goes_on(other, one), one == other ? 0 : 1);
  Succession first = looking(0), second = looking(1);
  first.found(later, kStart);
  second.found(idle, kStart);
  EXPECT_FALSE(first.yields(idle));
  EXPECT_TRUE(second.yields(later));
  EXPECT_FALSE(second.yields({1, 3, true})) << "an idle one disturbs nobody";
  second.look_no_more();
  second.look(kStart, kStart);
  EXPECT_FALSE(second.yields(later)) << "what was found before is forgotten";
}

// Leaders after a leader.
class InTurnTest : public NodesTest {
 protected:
  static Rules in_turn(int restarts = 3) {
    return {.nodes = 3, .max_restarts = restarts, .in_turn = true};
  }
  // The leader's machine is lost; another leader is on that of link 1, whose node goes on.
  void next_leader() {
    nodes.erase(kOwnLink);
    for (auto& [link, node] : nodes) node.closed(now);
    now += 2 * kSecond;
    for (auto& [link, node] : nodes) node.tick(now);
    for (auto& [link, node] : nodes)
      if (node.wish().signal != 0) node.workers_gone(false);
    leader.emplace(rules_, row(1, 200), 8, Leader::Record{}, now);
    nodes.emplace(kOwnLink, nodes.at(1));
    nodes.erase(1);
  }
};

TEST_F(InTurnTest, ItsOwnNodeHasNoRightToRankZero) {
  begin(in_turn());
  add(1, row(1, 101));
  talk();
  EXPECT_FALSE(leader->has_rank(kOwnLink)) << "others may have had any";
  add(2, row(2, 102, 0));
  talk();
  EXPECT_EQ(leader->rank_of(2), 0);
  EXPECT_EQ(leader->attempt(), 1U);
  EXPECT_EQ(leader->rank_of(kOwnLink), 1) << "by arrival";
}

TEST_F(InTurnTest, TheNextOneGoesOnByOneRestart) {
  begin(in_turn(), 0);
  add(1, row(1, 101, 1));
  add(2, row(2, 102, 2));
  talk();
  ASSERT_EQ(leader->attempt(), 1U);
  next_leader();
  add(3, row(3, 103, 0));
  const std::uint64_t led = now;
  while (leader->phase() != Phase::kRunning && now < led + 3 * kL) {
    now += kSecond / 4;
    leader->tick(now);
    talk();
  }
  EXPECT_EQ(leader->attempt(), 2U);
  EXPECT_GE(now, led + kL + kSecond) << "the fence of the lost one";
  EXPECT_LT(now, led + kL + 3 * kSecond);
  for (auto& [link, node] : nodes) EXPECT_EQ(node.word(now).alive, 2U) << link;
}

// All agents are new, and one of them is on the machine of the leader that was killed.
TEST_F(InTurnTest, WhatAnotherPlaceTellsOfALeaderIsWaitedFor) {
  begin(in_turn());
  add(1, row(1, 101)).has_led_before();
  add(2, row(2, 102));
  pass(kL);
  EXPECT_EQ(leader->phase(), Phase::kForming);
  pass(2 * kSecond);
  EXPECT_EQ(leader->attempt(), 1U);
  nodes.at(2).workers_failed({1, 0, "exit code 1", 1, false}, now);
  nodes.at(2).workers_gone(false);
  pass(kSecond);
  for (auto& [link, node] : nodes)
    if (node.wish().signal != 0) node.workers_gone(false);
  pass(2 * kSecond);
  EXPECT_EQ(leader->attempt(), 2U) << "once";
}

// Its own leader has the record, and knows better.
TEST_F(InTurnTest, WhoLeadsAgainDoesNotWaitForItself) {
  begin(in_turn());
  nodes.at(kOwnLink).has_led_before();
  add(1, row(1, 101));
  add(2, row(2, 102));
  pass(kSecond);
  EXPECT_EQ(leader->attempt(), 1U);
}

// Another leader may have had others in the place of all who are here, until it lost that one.
TEST_F(InTurnTest, WhoComesInThePlaceOfOneLongLostIsWaitedFor) {
  lose_the_third(in_turn());
  for (auto& [link, node] : nodes)
    if (node.wish().signal != 0) node.workers_gone(false);
  pass(3 * kL);
  add(3, row(3, 103));
  pass(kL);
  EXPECT_EQ(leader->rank_of(3), 2);
  EXPECT_EQ(leader->phase(), Phase::kForming);
  pass(2 * kSecond);
  EXPECT_EQ(leader->attempt(), 2U);
}

TEST_F(InTurnTest, WhoIsBackWithinLIsNotWaitedFor) {
  begin(in_turn());
  add(1, row(1, 101));
  add(2, row(2, 102));
  talk();
  leader->closed(2, now);
  nodes.erase(2);
  pass(2 * kSecond);
  for (auto& [link, node] : nodes)
    if (node.wish().signal != 0) node.workers_gone(false);
  add(3, row(2, 103));
  pass(kSecond);
  EXPECT_EQ(leader->attempt(), 2U);
}

TEST_F(InTurnTest, WhatOneHasHeardOfTheEndIsToldToAll) {
  for (const int restarts : {0, 3}) {
    nodes.clear();
    begin(in_turn(restarts), 0);
    add(1, row(1, 101, 1));
    add(2, row(2, 102, 2));
    talk();
    for (auto& [link, node] : nodes) node.workers_gone(true);
    leader->heard(kOwnLink, nodes.at(kOwnLink).word(now), now);
    leader->heard(1, nodes.at(1).word(now), now);
    leader->heard(2, nodes.at(2).word(now), now);
    ASSERT_TRUE(leader->final());
    nodes.at(2).heard(leader->word_for(2, now), now);  // and node 1 has not
    next_leader();
    cut.insert(2);
    talk();
    EXPECT_FALSE(leader->final()) << "another may have heard of one: " << restarts;
    cut.clear();
    talk();
    ASSERT_TRUE(leader->final());
    EXPECT_EQ(leader->final()->code, 0);
    pass(4 * kL);  // the lost one does not come
    for (auto& [link, node] : nodes) {
      ASSERT_TRUE(node.ending());
      EXPECT_EQ(node.ending()->code, 0);
    }
  }
}

TEST_F(InTurnTest, WithoutARestartTheLossIsTheEndOnceNobodyCanHaveHeardOfAnother) {
  begin(in_turn(0), 0);
  add(1, row(1, 101, 1));
  add(2, row(2, 102, 2));
  talk();
  next_leader();
  talk();
  EXPECT_FALSE(leader->final());
  EXPECT_FALSE(leader->is_active()) << "it gives up for one that knows more";
  pass(3 * kL + kSecond);
  ASSERT_TRUE(leader->final());
  EXPECT_EQ(leader->final()->code, 69);
}

TEST_F(InTurnTest, AStopThatALeaderHasToldWaitsForTheNextOne) {
  begin(in_turn(), 0);
  add(1, row(1, 101, 1));
  add(2, row(2, 102, 2));
  talk();
  nodes.at(kOwnLink).signalled(SIGTERM);
  leader->heard(kOwnLink, nodes.at(kOwnLink).word(now), now);
  nodes.at(2).heard(leader->word_for(2, now), now);  // node 1 has not
  next_leader();
  EXPECT_FALSE(nodes.at(2).leaves());
  talk();
  for (auto& [link, node] : nodes)
    if (node.wish().signal != 0) node.workers_gone(false);
  talk();
  ASSERT_TRUE(leader->final());
  EXPECT_EQ(leader->final()->code, 128 + SIGTERM);
}

// Whose machine leads next has heard of the stop, or has it itself then; another is cut off.
TEST_F(InTurnTest, AStopIsToldToThoseWhoComeLater) {
  for (const bool own : {false, true}) {
    nodes.clear();
    begin(in_turn(), 0);
    add(1, row(1, 101, 1));
    add(2, row(2, 102, 2));
    talk();
    if (!own) nodes.at(kOwnLink).signalled(SIGTERM);
    if (!own) leader->heard(kOwnLink, nodes.at(kOwnLink).word(now), now);
    if (!own) nodes.at(1).heard(leader->word_for(1, now), now);
    cut.insert(2);
    next_leader();
    talk();
    if (own) nodes.at(kOwnLink).signalled(SIGTERM);
    pass(kL);
    EXPECT_TRUE(leader->final());
    EXPECT_FALSE(nodes.at(kOwnLink).ending()) << "the other one may come: " << own;
    cut.clear();
    pass(kSecond);
    for (const Link link : {kOwnLink, Link{2}})
      if (nodes.at(link).wish().signal != 0) nodes.at(link).workers_gone(false);
    pass(3 * kL);
    for (auto& [link, node] : nodes) {
      ASSERT_TRUE(node.ending()) << link;
      EXPECT_EQ(node.ending()->code, 128 + SIGTERM) << link;
    }
  }
}

TEST_F(InTurnTest, AStopWaitsForNobodyWhereNothingWasBegunOrAllAreToBeKilled) {
  for (const bool twice : {false, true}) {
    nodes.clear();
    begin(in_turn(), 0);
    if (twice) {
      add(1, row(1, 101, 1));
      add(2, row(2, 102, 2));
      talk();
      cut.insert(2);
      next_leader();
      nodes.at(kOwnLink).signalled(SIGTERM);
    }
    nodes.at(kOwnLink).signalled(SIGTERM);
    pass(2 * kSecond);
    EXPECT_TRUE(nodes.at(kOwnLink).ending()) << twice;
    cut.clear();
  }
}

}  // namespace
}  // namespace lockstep::nodes
