// Ranks, fences and connections of nodes/, one by one. tests/simulation/nodes tries them together.
#include "nodes_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <vector>

namespace lockstep::nodes {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(NodesTest, RanksByArrivalAndTheEndpointIsFirst) {
  begin({.nodes = 3});
  add(1, row(1, 101));
  talk();
  EXPECT_EQ(leader->phase(), Phase::kForming);
  EXPECT_EQ(leader->missing(now), "1 more node (2 of 3 are here: host0, host1)");
  add(2, row(2, 102));
  talk();
  EXPECT_EQ(leader->phase(), Phase::kRunning);
  EXPECT_EQ(nodes.at(kOwnLink).share().rank, 0);
  EXPECT_EQ(nodes.at(1).share().rank + nodes.at(2).share().rank, 3);
  EXPECT_EQ(nodes.at(1).share().world, 6U);
  EXPECT_EQ(nodes.at(1).share().base_rank, 2U * static_cast<unsigned>(nodes.at(1).share().rank));
}

TEST_F(NodesTest, GivenRanksHold) {
  begin({.nodes = 3}, 2);
  add(1, row(1, 101, 0));
  add(2, row(2, 102, 1));
  talk();
  EXPECT_EQ(leader->phase(), Phase::kRunning);
  EXPECT_EQ(nodes.at(kOwnLink).share().base_rank, 4U);
  EXPECT_EQ(nodes.at(1).share().base_rank, 0U);
}

TEST_F(NodesTest, ARankTwiceNamesBothAddresses) {
  begin({.nodes = 3});
  add(1, row(1, 101, 1));
  talk();
  add(2, row(2, 102, 1));
  talk();
  nodes.at(2).tick(now);
  ASSERT_TRUE(nodes.at(2).ending());
  EXPECT_EQ(nodes.at(2).ending()->code, 2);
  EXPECT_THAT(nodes.at(2).ending()->text, HasSubstr("10.0.0.1"));
  EXPECT_THAT(nodes.at(2).ending()->text, HasSubstr("10.0.0.2"));
  EXPECT_FALSE(nodes.at(1).ending());
}

// The same command, started twice.
TEST_F(NodesTest, ARankTwiceOnOneMachineIsSaidToBeThereAlready) {
  begin({.nodes = 3});
  add(1, row(1, 101, 1));
  talk();
  nodes.try_emplace(2, rules_, row(1, 102, 1), now);  // the lock is held
  talk();
  nodes.at(2).tick(now);
  ASSERT_TRUE(nodes.at(2).ending());
  EXPECT_THAT(nodes.at(2).ending()->text, HasSubstr("is started already"));
}

// A machine that fails and is back at once, elsewhere, is not yet missed: its connection stands.
TEST_F(NodesTest, AGivenRankIsRefusedOnlyWhereItsNodeStillAnswers) {
  begin({.nodes = 2, .max_restarts = 1}, 0);
  add(1, row(1, 101, 1));
  talk();
  cut.insert(1);
  add(2, row(2, 102, 1));
  pass(2 * kL);
  EXPECT_FALSE(nodes.at(2).ending()) << nodes.at(2).ending()->text;
  EXPECT_EQ(nodes.at(2).share().rank, -1);
  nodes.at(kOwnLink).workers_gone(false);
  pass(2 * kL);
  EXPECT_EQ(nodes.at(2).share().rank, 1) << "after 3 L";
  EXPECT_EQ(leader->attempt(), 2U);
  Node& second = add(3, row(3, 103, 1));
  pass(kSecond);
  ASSERT_TRUE(second.ending());
  EXPECT_EQ(second.ending()->code, 2);
}

TEST_F(NodesTest, ARankBeyondTheNodesIsRefused) {
  begin({.nodes = 2});
  add(1, row(1, 101, 2));
  talk();
  nodes.at(1).tick(now);
  ASSERT_TRUE(nodes.at(1).ending());
  EXPECT_THAT(nodes.at(1).ending()->text, HasSubstr("node rank 2 is not below --nnodes 2"));
}

// Else N nodes that come are told N * N times.
TEST_F(NodesTest, ARankIsNewsForItsNodeAlone) {
  begin({.nodes = 3});
  Node& first = add(1, row(1, 101));
  leader->heard(kOwnLink, nodes.at(kOwnLink).word(now), now);
  EXPECT_THAT(leader->take_due(), ElementsAre(kOwnLink));
  const std::uint64_t version = leader->version();
  leader->heard(1, first.word(now), now);
  EXPECT_THAT(leader->take_due(), ElementsAre()) << "another may come first";
  leader->heard(2, Node(rules_, row(2, 102), now).word(now), now);
  EXPECT_THAT(leader->take_due(), ElementsAre(1, 2)) << "by arrival";
  leader->heard(3, Node(rules_, row(3, 103, 7), now).word(now), now);
  EXPECT_THAT(leader->take_due(), ElementsAre(3)) << "a refusal";
  EXPECT_EQ(leader->version(), version);
}

TEST_F(NodesTest, WhatTheLeaderWaitsForIsAnsweredAtOnce) {
  begin({.nodes = 2, .max_restarts = 1});
  Node& node = add(1, row(1, 101));
  talk();
  std::uint64_t version = node.version();
  node.heard(leader->word_for(1, now + 1), now);
  EXPECT_EQ(node.version(), version) << "nothing has changed";
  nodes.at(kOwnLink).workers_failed({0, 0, "rank 0 died", 1, false}, now);
  leader->heard(kOwnLink, nodes.at(kOwnLink).word(now), now);
  node.heard(leader->word_for(1, now + 1), now);
  EXPECT_GT(node.version(), version);
  version = node.version();
  node.workers_gone(false);
  EXPECT_GT(node.version(), version);
}

TEST_F(NodesTest, ALateWordOfAnEarlierConnectionChangesNothing) {
  begin({.nodes = 2});
  Node& node = add(1, row(1, 101));
  const NodeWord late = node.word(now++);
  talk();
  leader->heard(5, node.word(now), now);
  EXPECT_THAT(leader->take_dropped(), ElementsAre(1));
  leader->take_due();
  leader->heard(1, late, now);
  EXPECT_THAT(leader->take_due(), ElementsAre());
  EXPECT_THAT(leader->take_dropped(), ElementsAre());
  EXPECT_EQ(leader->word_for(5, now).rank, 1);
}

TEST_F(NodesTest, WhoIsRefusedKillsItsWorkersEvenThoseThatSave) {
  begin({.nodes = 2, .max_restarts = 3});
  Node& node = add(1, row(1, 101));
  talk();
  node.signalled(SIGTERM);
  EXPECT_EQ(node.wish().signal, SIGTERM);
  node.leave(69, "another run is at the endpoint");
  EXPECT_EQ(node.wish().signal, SIGKILL);
  node.workers_gone(false);
  node.tick(now);
  ASSERT_TRUE(node.ending());
  EXPECT_EQ(node.ending()->code, 69);
}

// The fence is counted from its own word that came back, not from when the leader's came.
TEST_F(NodesTest, WhoseWordsReachNobodyIsFencedThoughItHearsTheLeader) {
  begin({.nodes = 2, .max_restarts = 3});
  Node& node = add(1, row(1, 101));
  talk();
  const LeaderWord heard = leader->word_for(1, now);
  for (const std::uint64_t end = now + kL - kSecond; now < end; now += kSecond / 4) {
    LeaderWord word = heard;  // with the old echo
    word.sent = now;
    node.heard(word, now);
    node.tick(now);
    EXPECT_EQ(node.wish().signal, 0);
  }
  now += kSecond;
  LeaderWord word = heard;
  word.sent = now;
  node.heard(word, now);
  node.tick(now);
  EXPECT_EQ(node.wish().signal, SIGKILL);
}

// The words that wait for it are old, and say so; but what the one before them granted still holds.
TEST_F(NodesTest, WhoSleepsForLessThanTheLimitGoesOn) {
  begin({.nodes = 2, .max_restarts = 3});
  Node& node = add(1, row(1, 101));
  talk();
  std::vector<LeaderWord> waiting;
  for (const std::uint64_t end = now + kL - kSecond; now < end;) {
    now += kSecond / 4;
    leader->heard(kOwnLink, nodes.at(kOwnLink).word(now), now);
    nodes.at(kOwnLink).heard(leader->word_for(kOwnLink, now), now);
    leader->tick(now);
    waiting.push_back(leader->word_for(1, now));
  }
  for (const LeaderWord& word : waiting) {
    node.heard(word, now);
    node.tick(now);
  }
  EXPECT_EQ(node.wish().signal, 0);
  now += 2 * kSecond;
  node.tick(now);
  EXPECT_EQ(node.wish().signal, SIGKILL) << "it holds no longer than that";
}

// Its first answer is to a word from the time of its sleep, which grants a new attempt next to
// nothing.
TEST_F(NodesTest, AnAttemptBeginsWithAFenceThatIsFarOff) {
  begin({.nodes = 2, .max_restarts = 3});
  Node& own = nodes.at(kOwnLink);
  Node& node = add(1, row(1, 101));
  talk();
  std::vector<LeaderWord> waiting;
  for (const std::uint64_t end = now + 2 * kL - kSecond; now < end;) {
    now += kSecond / 4;
    own.tick(now);
    if (own.wish().signal == SIGKILL) own.workers_gone(false);
    leader->heard(kOwnLink, own.word(now), now);
    own.heard(leader->word_for(kOwnLink, now), now);
    waiting.push_back(leader->word_for(1, now));
    leader->tick(now);
  }
  const auto begun = [&] { return leader->attempt() == 2 && leader->phase() == Phase::kRunning; };
  bool answered = false;
  for (const LeaderWord& word : waiting) {
    node.heard(word, now);
    node.tick(now);
    if (node.wish().signal == SIGKILL) node.workers_gone(false);
    if (word.rank < 0 || word.runs || answered) continue;
    answered = true;
    leader->heard(2, node.word(now), now);
    EXPECT_EQ(node.word(now).alive, 0U);
    EXPECT_FALSE(begun());
  }
  EXPECT_TRUE(answered);
  node.heard(leader->word_for(2, now), now);
  leader->heard(2, node.word(now), now);
  EXPECT_TRUE(begun());
}

TEST_F(NodesTest, AReturnAtTheSameAddressStartsAtOnce) {
  begin({.nodes = 3, .max_restarts = 1});
  add(1, row(1, 101));
  add(2, row(2, 102));
  talk();
  const int rank = nodes.at(2).share().rank;
  nodes.erase(2);
  leader->closed(2, now);
  pass(2 * kSecond);
  for (auto& [link, node] : nodes) node.workers_gone(false);
  add(3, row(2, 103));
  pass(kSecond);
  EXPECT_EQ(leader->attempt(), 2U);
  EXPECT_EQ(nodes.at(3).share().rank, rank);
}

TEST_F(NodesTest, FromAnotherAddressAfterThreeLimits) {
  lose_the_third({.nodes = 3, .max_restarts = 1});
  for (const Link link : {kOwnLink, Link{1}}) nodes.at(link).workers_gone(false);
  add(3, row(5, 103));
  pass(2 * kL);
  EXPECT_EQ(leader->phase(), Phase::kForming);
  pass(kL);
  EXPECT_EQ(leader->attempt(), 2U);
  // The old one has killed its workers long ago; it comes back, and is told.
  EXPECT_EQ(nodes.at(2).wish().signal, SIGKILL);
  nodes.at(2).workers_gone(false);
  cut.clear();
  pass(kSecond);
  ASSERT_TRUE(nodes.at(2).ending());
  EXPECT_EQ(nodes.at(2).ending()->code, 69);
  EXPECT_EQ(leader->phase(), Phase::kRunning);
}

// The second of three leaders knows of nothing yet, and has another number for the run.
TEST_F(NodesTest, TheNumberOfARunWithoutAnAttemptDoesNotCount) {
  begin({.nodes = 3, .max_restarts = 5});
  const auto told = [&](Link link, std::uint64_t run, Attempt attempt) {
    LeaderWord other;
    other.incarnation = 55;
    other.machine = "machine0";
    other.run = run;
    other.rank = static_cast<int>(link);
    other.attempt = attempt;
    other.sent = 1;
    add(link, row(static_cast<int>(link), 100 + link)).heard(other, now);
  };
  told(1, 3, 1);
  told(2, 4, 0);
  talk();
  for (const auto& [link, node] : nodes) EXPECT_FALSE(node.ending()) << link;
  EXPECT_EQ(leader->record().run, 3U);
  pass(2 * kL);
  EXPECT_EQ(leader->phase(), Phase::kRunning);
  EXPECT_EQ(leader->attempt(), 2U);
}

TEST_F(NodesTest, AnAgentOfAnEarlierRunIsTold) {
  begin({.nodes = 2});
  add(1, row(1, 101));
  talk();
  Node& old = add(9, row(3, 109));
  LeaderWord other;
  other.incarnation = 55;
  other.run = 3;
  other.rank = 1;
  other.attempt = 1;
  other.sent = 1;
  old.heard(other, now);
  talk();
  old.tick(now);
  ASSERT_TRUE(old.ending());
  EXPECT_THAT(old.ending()->text, HasSubstr("another run"));
  EXPECT_EQ(leader->phase(), Phase::kRunning);
}

}  // namespace
}  // namespace lockstep::nodes
