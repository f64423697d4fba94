// What is to be seen of a run from outside, as its leader and its nodes have it.
#include "nodes/view.h"

#include <csignal>
#include <limits>

#include "nodes_test.h"

namespace lockstep::nodes {
namespace {

using State = View::State;

TEST_F(NodesTest, ALeadersViewIsOfAllNodes) {
  begin({.nodes = 3, .max_restarts = 1});
  add(1, row(1, 101));
  pass(2 * kSecond);
  View view = leader->view(0, 100, now);
  EXPECT_EQ(view.state, State::kForming);
  EXPECT_TRUE(view.leads);
  EXPECT_EQ(view.waits_ns + view.left_ns, rules_.join_timeout);
  EXPECT_GE(view.waits_ns, 2 * kSecond);
  ASSERT_EQ(view.members.size(), 3U);
  EXPECT_TRUE(view.members[0].connected);
  EXPECT_FALSE(view.members[2].known);
  add(2, row(2, 102));
  talk();
  view = leader->view(0, 100, now);
  EXPECT_EQ(view.state, State::kRunning);
  EXPECT_EQ(view.world, 6U);
  EXPECT_EQ(view.attempt, 1U);
  EXPECT_EQ(view.members[2].rank, 2);
  EXPECT_EQ(view.members[2].address, "10.0.0.2");
  EXPECT_TRUE(view.members[2].works);
  EXPECT_LT(view.members[2].silent_ns, kSecond);
  // By parts.
  EXPECT_EQ(leader->view(1, 1, now).members.size(), 1U);
  EXPECT_EQ(leader->view(1, 1, now).members[0].rank, 1);
  EXPECT_TRUE(leader->view(3, 5, now).members.empty());
  EXPECT_EQ(leader->view(-5, 1, now).members[0].rank, 0);
  EXPECT_TRUE(leader->view(2'000'000'000, 1'024, now).members.empty());
  EXPECT_EQ(leader->view(std::numeric_limits<int>::max(), 1'024, now).members.size(), 0U);

  cut.insert(2);
  leader->closed(2, now);
  pass(2 * kSecond);
  for (auto& [link, node] : nodes) node.workers_gone(false);
  talk();
  view = leader->view(0, 100, now);
  EXPECT_EQ(view.state, State::kForming);
  EXPECT_FALSE(view.members[2].connected);
  EXPECT_TRUE(view.members[2].known);
  EXPECT_GE(view.members[2].silent_ns, kSecond);
  EXPECT_FALSE(view.why.empty());
}

TEST_F(NodesTest, ANodesViewIsOfItself) {
  begin({.nodes = 2, .max_restarts = 1});
  Node& node = add(1, row(1, 101));
  EXPECT_EQ(Node(rules_, row(1, 9), now).view(now).rank, -1);
  talk();
  EXPECT_EQ(node.view(now).state, State::kRunning);
  EXPECT_EQ(node.view(now).rank, 1);
  EXPECT_EQ(node.view(now).leader_rank, 0);
  EXPECT_EQ(node.view(now).world, 4U);
  EXPECT_FALSE(node.view(now).fenced);
  cut.insert(1);
  node.closed(now);
  pass(2 * kSecond);
  EXPECT_FALSE(node.view(now).fenced) << "its workers have been told to end, and are there";
  node.workers_gone(false);
  const View view = node.view(now);
  EXPECT_EQ(view.state, State::kWaiting);
  EXPECT_TRUE(view.fenced);
  EXPECT_GE(view.waits_ns, 2 * kSecond);
  EXPECT_EQ(view.waits_ns + view.left_ns, rules_.join_timeout);
  node.signalled(SIGTERM);
  EXPECT_EQ(node.view(now).state, State::kStopping);
}

TEST_F(NodesTest, WhoAskedForTheEndIsSaidToAll) {
  begin({.nodes = 2});
  add(1, row(1, 101));
  talk();
  nodes.at(1).signalled(SIGTERM, "'lockstep stop' on a");
  talk();
  EXPECT_EQ(nodes.at(kOwnLink).why(), "node 1 (10.0.0.1) was stopped by 'lockstep stop' on a");
}

}  // namespace
}  // namespace lockstep::nodes
