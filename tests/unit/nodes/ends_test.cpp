// How attempts and runs of nodes/ end: well, by failures and losses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "nodes_test.h"

namespace lockstep::nodes {
namespace {

using testing::HasSubstr;

TEST_F(NodesTest, AllEndedWellIsTheEnd) {
  begin({.nodes = 2});
  add(1, row(1, 101));
  talk();
  nodes.at(1).workers_gone(true);
  pass(3600 * kSecond);  // no limit
  EXPECT_EQ(leader->phase(), Phase::kRunning);
  nodes.at(kOwnLink).workers_gone(true);
  pass(kSecond);
  ASSERT_TRUE(nodes.at(1).ending());
  EXPECT_EQ(nodes.at(1).ending()->code, 0);
}

TEST_F(NodesTest, AFailureRestartsThoseThatHaveEndedToo) {
  begin({.nodes = 2, .max_restarts = 1});
  add(1, row(1, 101));
  talk();
  nodes.at(1).workers_gone(true);
  talk();
  nodes.at(kOwnLink).workers_failed({0, 0, "rank 0 died", 1, false}, now);
  talk();
  EXPECT_EQ(nodes.at(kOwnLink).wish().signal, SIGKILL);
  EXPECT_EQ(leader->attempt(), 1U) << "its workers have not gone yet";
  nodes.at(kOwnLink).workers_gone(false);
  talk();
  EXPECT_EQ(leader->attempt(), 2U);
  nodes.at(1).workers_failed({0, 0, "rank 2 died", 3, false}, now);
  talk();
  EXPECT_EQ(nodes.at(kOwnLink).wish().signal, SIGTERM);
  for (auto& [link, node] : nodes) node.workers_gone(false);
  talk();
  ASSERT_TRUE(leader->final());
  EXPECT_EQ(leader->final()->code, 3);
  EXPECT_THAT(leader->final()->text, HasSubstr("rank 2 died"));
}

TEST_F(NodesTest, ALostNodeWithoutBudgetEndsTheRunAtOnce) {
  lose_the_third({.nodes = 3});
  ASSERT_TRUE(leader->final());
  EXPECT_EQ(leader->final()->code, 69);
  EXPECT_EQ(nodes.at(1).wish().signal, SIGTERM);
  for (const Link link : {kOwnLink, Link{1}}) nodes.at(link).workers_gone(false);
  pass(kSecond);
  for (const Link link : {kOwnLink, Link{1}}) {
    ASSERT_TRUE(nodes.at(link).ending());
    EXPECT_EQ(nodes.at(link).ending()->code, 69);
    EXPECT_THAT(nodes.at(link).ending()->text, HasSubstr("node 2 (10.0.0.2) has closed"));
  }
}

TEST_F(NodesTest, ALostNodeCostsOneRestartHoweverManyAreLostWithIt) {
  begin({.nodes = 4, .max_restarts = 1});
  for (const int i : {1, 2, 3}) add(static_cast<Link>(i), row(i, 100u + static_cast<unsigned>(i)));
  talk();
  for (const Link link : {Link{2}, Link{3}}) {
    nodes.erase(link);
    leader->closed(link, now);
    pass(kSecond);  // one after the other
  }
  pass(kSecond);
  for (auto& [link, node] : nodes) node.workers_gone(false);
  add(4, row(2, 202));
  add(5, row(3, 203));
  pass(kSecond);
  EXPECT_EQ(leader->attempt(), 2U);
  EXPECT_EQ(leader->phase(), Phase::kRunning);
  EXPECT_THAT(nodes.at(1).why(), HasSubstr("node 2 (10.0.0.2) has closed its connection"));
}

TEST_F(NodesTest, WithoutBudgetALostLeaderEndsAllAtOnce) {
  begin({.nodes = 2});
  Node& node = add(1, row(1, 101));
  talk();
  node.closed(now);
  node.tick(now + kSecond / 2);
  EXPECT_EQ(node.wish().signal, 0) << "it may be there again";
  node.tick(now += kSecond);
  EXPECT_EQ(node.wish().signal, SIGKILL);
  node.workers_gone(false);
  node.tick(now);
  ASSERT_TRUE(node.ending());
  EXPECT_EQ(node.ending()->code, 69);
}

TEST_F(NodesTest, WithBudgetALostLeaderIsAwaitedUntilJoinTimeout) {
  begin({.nodes = 2, .max_restarts = 1, .join_timeout = 60 * kSecond});
  Node& node = add(1, row(1, 101));
  talk();
  node.closed(now);
  node.tick(now += kSecond);
  node.workers_gone(false);
  node.tick(now += 57 * kSecond);
  EXPECT_FALSE(node.ending());
  EXPECT_EQ(node.tries_on(now), "; goes on trying for 2.0 s (--rdzv-conf join_timeout)");
  node.not_reached("host0:29400: refused");
  node.tick(now += 3 * kSecond);
  ASSERT_TRUE(node.ending());
  EXPECT_EQ(node.ending()->code, 69);
  EXPECT_EQ(node.ending()->text,
            "node 0 (host0:29400), which leads, has closed its connection, and was not there again "
            "within 60.0 s (--rdzv-conf join_timeout): host0:29400: refused");
  EXPECT_EQ(node.tries_on(now), "");
}

// However long it has tried, what was in its way is said.
TEST_F(NodesTest, ALeaderThatWasNeverReachedIsSaidToBeNowhere) {
  Rules rules{.nodes = 2, .join_timeout = 60 * kSecond};
  rules.endpoint = "host0:29400";
  Node node(rules, row(1, 101), now);
  node.not_reached("the look-up of 'host0' gave no answer");
  node.tick(now += 60 * kSecond);
  ASSERT_TRUE(node.ending());
  EXPECT_EQ(node.ending()->text,
            "the launcher at host0:29400 was not reached within 60.0 s (--rdzv-conf join_timeout): "
            "the look-up of 'host0' gave no answer");
}

TEST_F(NodesTest, ThatNoRestartIsLeftIsSaid) {
  for (const int restarts : {0, 2}) {
    nodes.clear();
    begin({.nodes = 2, .max_restarts = restarts});
    add(1, row(1, 101));
    talk();
    for (int attempt = 1; attempt <= restarts + 1; ++attempt) {
      nodes.at(1).workers_started();
      nodes.at(1).workers_failed({0, 0, "rank 2 broke", 7, false}, now);
      talk();
      for (auto& [link, node] : nodes) node.workers_gone(false);
      pass(2 * kSecond);
    }
    ASSERT_TRUE(leader->final());
    EXPECT_EQ(leader->final()->text,
              restarts == 0 ? "node 1 (10.0.0.1): rank 2 broke; --max-restarts 0 allows no restart"
                            : "node 1 (10.0.0.1): rank 2 broke; no restart is left: 2 of 2 used "
                              "(--max-restarts gives more)");
  }
}

// Rank 2's death takes a second to be sure (it may be a signal to all); rank 0's, of its broken
// connection, is told first.
TEST_F(NodesTest, TheOldestFailureIsNamedAndItsCodeIsTheRuns) {
  begin({.nodes = 3});
  add(1, row(1, 101));
  add(2, row(2, 102));
  talk();
  nodes.at(kOwnLink).workers_failed({0, 0, "rank 0 lost a peer", 1, false}, now);
  talk();
  EXPECT_EQ(nodes.at(1).wish().signal, SIGTERM) << "the end does not wait";
  EXPECT_FALSE(leader->final());
  EXPECT_EQ(nodes.at(1).why(), "");
  nodes.at(1).workers_failed({0, kSecond / 5, "rank 2 was killed", 7, false}, now);
  nodes.at(2).workers_failed({0, 0, "rank 4 was told to end", 1, false}, now);
  pass(kSecond / 2);
  EXPECT_FALSE(leader->final());
  pass(kSecond);
  ASSERT_TRUE(leader->final());
  EXPECT_EQ(leader->final()->code, 7);
  EXPECT_EQ(leader->final()->node, 1);
  EXPECT_EQ(leader->final()->text,
            "node 1 (10.0.0.1): rank 2 was killed; --max-restarts 0 allows no restart");
}

TEST_F(NodesTest, ARestartDoesNotWaitForTheCause) {
  begin({.nodes = 2, .max_restarts = 1});
  add(1, row(1, 101));
  talk();
  nodes.at(kOwnLink).workers_failed({0, 0, "rank 0 lost a peer", 1, false}, now);
  talk();
  nodes.at(1).workers_failed({0, kSecond / 5, "rank 2 was killed", 1, false}, now);
  for (auto& [link, node] : nodes) node.workers_gone(false);
  talk();
  EXPECT_EQ(leader->attempt(), 2U);
  EXPECT_EQ(nodes.at(kOwnLink).why(), "node 1 (10.0.0.1): rank 2 was killed");
}

// What others die of is told within a second; the node itself only when its connection is given up.
TEST_F(NodesTest, ANodeThatIsGoneIsOlderThanWhatOthersDieOf) {
  begin({.nodes = 3});
  add(1, row(1, 101));
  add(2, row(2, 102));
  talk();
  cut.insert(2);
  leader->closed(2, now);
  now += kSecond / 20;
  nodes.at(1).workers_failed({0, 0, "rank 2 lost a peer", 1, false, 2, true}, now);
  for (const Link link : {kOwnLink, Link{1}}) nodes.at(link).workers_gone(false);
  pass(2 * kSecond);
  ASSERT_TRUE(leader->final());
  EXPECT_EQ(leader->final()->code, 69);
  EXPECT_EQ(leader->final()->node, 2);
}

TEST_F(NodesTest, WhoIsNotHeardIsNamedBesideWhatFailed) {
  begin({.nodes = 3});
  add(1, row(1, 101));
  add(2, row(2, 102));
  talk();
  cut.insert(2);
  pass(5 * kSecond);
  nodes.at(1).workers_failed({0, 0, "rank 2 timed out", 1, false}, now);
  pass(2 * kSecond);
  ASSERT_TRUE(leader->final());
  EXPECT_EQ(leader->final()->code, 1);
  EXPECT_THAT(leader->final()->text, HasSubstr("rank 2 timed out; node 2 (10.0.0.2) has not been"));
}

// Also where none of an attempt's workers were started: its store was not reached.
TEST_F(NodesTest, WhyAnAttemptEndedIsKnownToAllWhoWereInItBeforeTheNextOneHasWorkers) {
  Rules rules;
  rules.nodes = 2;
  rules.max_restarts = 2;
  begin(rules);
  Node& node = add(1, row(1, 101));
  talk();
  EXPECT_EQ(node.restarts_after(), 0u);
  for (const Attempt attempt : {1u, 2u}) {
    Failure failure;
    failure.text = "the store is not reached";
    node.workers_failed(failure, now);
    pass(2 * kSecond);
    for (const auto& [link, each] : nodes) {
      EXPECT_EQ(each.restarts_after(), attempt);
      EXPECT_NE(each.why().find("the store is not reached"), std::string::npos);
    }
    for (auto& [link, each] : nodes) each.workers_gone(false);
    pass(2 * kSecond);
  }
  node.signalled(15);
  pass(kSecond);
  EXPECT_EQ(node.restarts_after(), 2u) << "a stop is no restart";
}

TEST_F(NodesTest, WhatWouldFailAgainEndsTheRunThoughARestartIsLeft) {
  begin({.nodes = 2, .max_restarts = 5});
  add(1, row(1, 101));
  talk();
  nodes.at(kOwnLink).workers_failed({0, 0, "rank 0 lost a peer", 1, false}, now);
  talk();
  EXPECT_EQ(leader->phase(), Phase::kForming);
  nodes.at(1).workers_failed({0, kSecond / 5, "rank 2: no such option", 64, true}, now);
  pass(2 * kSecond);
  ASSERT_TRUE(leader->final());
  EXPECT_EQ(leader->final()->code, 64);
}

TEST_F(NodesTest, WhatWorkersDieOfWhenToldToEndIsNoFailure) {
  begin({.nodes = 2, .max_restarts = 1});
  Node& node = add(1, row(1, 101));
  talk();
  nodes.at(kOwnLink).workers_failed({0, 0, "rank 0 died", 1, false}, now);
  talk();
  ++now;
  node.workers_failed({0, 0, "rank 2 ended by SIGKILL", 1, false}, now);
  EXPECT_FALSE(node.word(now).failure);
  node.workers_failed({0, kSecond, "rank 3 had died", 1, false}, now);
  ASSERT_TRUE(node.word(now).failure);
  EXPECT_EQ(node.word(now + kSecond).failure->age_ns, 2 * kSecond);
  EXPECT_EQ(node.word(now).failure->attempt, 1U);
}

// A leader that dies between telling Final to some and to others leaves nobody waiting.
TEST_F(NodesTest, WhoHasFinalLeavesThreeLimitsAfterTheLeaderIsGone) {
  begin({.nodes = 3});
  add(1, row(1, 101));
  add(2, row(2, 102));
  talk();
  for (auto& [link, node] : nodes) node.workers_gone(true);
  leader->heard(2, nodes.at(2).word(now), now);
  leader->heard(1, nodes.at(1).word(now), now);
  leader->heard(kOwnLink, nodes.at(kOwnLink).word(now), now);
  ASSERT_TRUE(leader->final());
  const std::uint64_t told = now;
  nodes.at(1).heard(leader->word_for(1, now + 1), now);
  for (const Link link : {Link{1}, Link{2}}) nodes.at(link).closed(now);
  nodes.at(1).tick(told + 3 * kL - 1);
  EXPECT_FALSE(nodes.at(1).ending());
  nodes.at(1).tick(told + 3 * kL);
  ASSERT_TRUE(nodes.at(1).ending());
  EXPECT_EQ(nodes.at(1).ending()->code, 0);
  nodes.at(2).tick(told + 3 * kL);  // it has no budget
  EXPECT_EQ(nodes.at(2).ending()->code, 69);
}

TEST_F(NodesTest, FinalIsOverWhenTheOthersAreGoneToo) {
  begin({.nodes = 3, .max_restarts = 1});
  add(1, row(1, 101));
  add(2, row(2, 102));
  talk();
  cut.insert(2);
  nodes.at(1).workers_failed({0, 0, "rank 2: no such option", 64, true}, now);
  for (const Link link : {kOwnLink, Link{1}}) nodes.at(link).workers_gone(false);
  pass(2 * kSecond);
  ASSERT_TRUE(leader->final());
  EXPECT_FALSE(nodes.at(1).ending()) << "the third may not know";
  pass(kL);
  ASSERT_TRUE(nodes.at(1).ending());
  EXPECT_EQ(nodes.at(1).ending()->code, 64);
}

TEST_F(NodesTest, NotAllThereInTimeIsToldToAll) {
  begin({.nodes = 3, .join_timeout = 60 * kSecond});
  add(1, row(1, 101));
  pass(62 * kSecond);
  ASSERT_TRUE(nodes.at(1).ending());
  EXPECT_EQ(nodes.at(1).ending()->code, 69);
  EXPECT_THAT(nodes.at(1).ending()->text, HasSubstr("missing: 1 more node (2 of 3"));
}

}  // namespace
}  // namespace lockstep::nodes
