// Who waits for whom: nodes that have no rank yet, and all for those that are missing.
#include <gtest/gtest.h>

#include <csignal>

#include "nodes_test.h"

namespace lockstep::nodes {
namespace {

TEST_F(NodesTest, WhoWaitsForARankStopsARunThatForms) {
  begin({.nodes = 3});
  Node& node = add(1, row(1, 101));
  talk();
  EXPECT_EQ(node.share().rank, -1) << "another may come first";
  node.signalled(SIGTERM);
  pass(kSecond);
  for (const auto& [link, one] : nodes) {
    ASSERT_TRUE(one.ending());
    EXPECT_EQ(one.ending()->code, 143);
  }
}

// Nobody waits for ever for a rank that is not there, or takes one of a run that lacks none.
TEST_F(NodesTest, WhoIsOneTooManyIsTold) {
  begin({.nodes = 2});
  add(1, row(1, 101));
  talk();
  ASSERT_EQ(leader->phase(), Phase::kRunning);
  Node& third = add(2, row(2, 102));
  talk();
  pass(kSecond);
  ASSERT_TRUE(third.ending());
  EXPECT_EQ(third.ending()->code, 69);
  EXPECT_NE(third.ending()->text.find("all its 2 nodes"), std::string::npos);
  EXPECT_EQ(leader->phase(), Phase::kRunning);
}

TEST_F(NodesTest, WhoWaitsForARankEndsWithARunThatGivesUp) {
  const Rules rules{.nodes = 3};
  begin(rules);
  Node& node = add(1, row(1, 101));
  talk();
  pass(rules.join_timeout + kSecond);
  ASSERT_TRUE(node.ending());
  EXPECT_EQ(node.ending()->code, 69);
}

TEST_F(NodesTest, WhoIsMissingIsToldToAllAfterAWhile) {
  begin({.nodes = 12}, 0);
  Node& node = add(1, row(1, 101, 1));
  pass(4 * kSecond);
  EXPECT_EQ(node.waits_for(), "");
  pass(2 * kSecond);
  EXPECT_NE(node.waits_for().find("node 2 (never seen)"), std::string::npos);
  EXPECT_NE(node.waits_for().find(" and 2 more"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::nodes
