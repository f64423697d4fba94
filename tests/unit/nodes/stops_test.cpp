// How signals to launchers end a run of nodes/, with a leader and without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "nodes_test.h"

namespace lockstep::nodes {
namespace {

TEST_F(NodesTest, OneSignalStopsAll) {
  begin({.nodes = 2});
  add(1, row(1, 101));
  talk();
  nodes.at(1).signalled(SIGINT);
  EXPECT_EQ(nodes.at(1).wish().signal, SIGINT) << "its own workers get it at once";
  talk();
  EXPECT_EQ(nodes.at(kOwnLink).wish().signal, SIGINT);
  for (auto& [link, node] : nodes) node.workers_gone(false);
  pass(kSecond);
  ASSERT_TRUE(nodes.at(1).ending());
  EXPECT_EQ(nodes.at(1).ending()->code, 130);
  EXPECT_EQ(leader->final()->code, 130);
}

TEST_F(NodesTest, AStopThatWasToldIsNotForgottenWithItsLeader) {
  for (const int restarts : {0, 3})
    for (const bool back : {false, true}) {
      nodes.clear();
      begin({.nodes = 3, .max_restarts = restarts});
      add(1, row(1, 101));
      add(2, row(2, 102));
      talk();
      nodes.at(kOwnLink).signalled(SIGTERM);
      talk();
      ASSERT_EQ(nodes.at(2).wish().signal, SIGTERM);
      for (auto& [link, node] : nodes) node.closed(now);
      if (back) {
        leader.emplace(rules_, row(0, 200), 8, Leader::Record{7, 1}, now);
        nodes.erase(kOwnLink);
        add(kOwnLink, row(0, 200));
      } else {
        cut = {1, 2};
      }
      for (const Link link : {Link{1}, Link{2}}) nodes.at(link).workers_gone(false);
      pass(3 * kSecond);
      for (const Link link : {Link{1}, Link{2}}) {
        ASSERT_TRUE(nodes.at(link).ending()) << restarts << back;
        EXPECT_EQ(nodes.at(link).ending()->code, 143);
        EXPECT_THAT(nodes.at(link).ending()->text, testing::StartsWith("node 0 (")) << back;
      }
      cut.clear();
    }
}

// Its peers die of what has stopped it: their failure must not cut its last checkpoint short.
TEST_F(NodesTest, WhoseLauncherIsToldToEndIsNotKilledForAFailureElsewhere) {
  Rules rules;
  rules.nodes = 2;
  rules.max_restarts = 1;
  begin(rules);
  add(1, row(1, 101));
  talk();
  nodes.at(1).signalled(SIGTERM);
  nodes.at(kOwnLink).workers_failed({1, 0, "lost its peer", 1, false}, now);
  leader->heard(kOwnLink, nodes.at(kOwnLink).word(now), now);
  nodes.at(1).heard(leader->word_for(1, now), now);
  EXPECT_EQ(nodes.at(1).wish().signal, SIGTERM);
  talk();
  EXPECT_EQ(leader->phase(), Phase::kStopping);
}

TEST_F(NodesTest, WithoutALeaderASignalStillEnds) {
  begin({.nodes = 2, .max_restarts = 5});
  Node& node = add(1, row(1, 101));
  talk();
  cut.insert(1);
  node.closed(now);
  node.signalled(SIGTERM);
  node.workers_gone(false);
  now += 2 * kSecond;
  node.tick(now);
  ASSERT_TRUE(node.ending());
  EXPECT_EQ(node.ending()->code, 143);
}

TEST_F(NodesTest, WithoutALeaderEverASignalEndsAtOnce) {
  Node node({.nodes = 2}, row(1, 101), now);
  node.tick(now += kSecond);
  node.signalled(SIGINT);
  node.tick(now);
  ASSERT_TRUE(node.ending()) << "it was never let in, and speaks for nobody else";
  EXPECT_EQ(node.ending()->code, 130);
}

// Nothing follows a final end: the others may take --shutdown-timeout to save, whoever is lost.
TEST_F(NodesTest, ALostNodeDoesNotCutTheOthersLastWorkShort) {
  const Rules rules{.nodes = 3};
  lose_the_third(rules);
  pass(rules.settle);
  ASSERT_TRUE(leader->final());
  EXPECT_EQ(nodes.at(1).wish().signal, SIGTERM);
  pass(3 * rules.limit);
  EXPECT_EQ(nodes.at(1).wish().signal, SIGTERM);
  nodes.at(1).workers_gone(false);
  nodes.at(kOwnLink).workers_gone(false);
  pass(kSecond);
  ASSERT_TRUE(nodes.at(1).ending());
  EXPECT_EQ(nodes.at(1).ending()->code, 69);
}

TEST_F(NodesTest, ASecondSignalEndsAtOnceWhereNobodyAnswers) {
  begin({.nodes = 3});
  Node& node = add(1, row(1, 101, 1));
  talk();
  cut.insert(1);
  now += 2 * kSecond;
  node.signalled(SIGINT);
  node.tick(now);
  EXPECT_FALSE(node.ending()) << "the leader may be there again, to tell the others";
  node.signalled(SIGINT);
  node.tick(now);
  ASSERT_TRUE(node.ending());
  EXPECT_EQ(node.ending()->code, 130);
}

TEST_F(NodesTest, ASecondSignalHasAllKilled) {
  begin({.nodes = 2, .max_restarts = 1});
  Node& node = add(1, row(1, 101));
  talk();
  node.signalled(SIGINT);
  talk();
  EXPECT_EQ(nodes.at(kOwnLink).wish().signal, SIGINT);
  node.signalled(SIGINT);
  EXPECT_EQ(node.wish().signal, SIGKILL);
  talk();
  EXPECT_EQ(nodes.at(kOwnLink).wish().signal, SIGKILL);
  node.workers_gone(false);
  pass(kSecond / 2);
  EXPECT_FALSE(node.ending()) << "of another node something lives";
  nodes.at(kOwnLink).workers_gone(false);
  pass(kSecond / 2);
  ASSERT_TRUE(node.ending());
  EXPECT_EQ(node.ending()->code, 130);
}

}  // namespace
}  // namespace lockstep::nodes
