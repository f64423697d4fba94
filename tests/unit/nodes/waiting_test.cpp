// Who waits for whom: nodes that have no rank yet, and all for those that are missing.
#include <gmock/gmock.h>
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

TEST_F(NodesTest, WhoWasNeverLetInEndsAtOnceAndStopsNobody) {
  begin({.nodes = 2});
  Node alone(rules_, row(1, 101), now);
  alone.signalled(SIGTERM);
  alone.tick(now);
  ASSERT_TRUE(alone.ending()) << "whoever is dialled, nobody has answered";
  EXPECT_EQ(alone.ending()->code, 143);
  for (const std::optional<int> rank : {std::optional<int>(), std::optional<int>(1)}) {
    const Link link = rank ? 3 : 2;
    Node& told = add(link, row(2, 102 + link, rank));
    told.signalled(SIGTERM);
    talk();
    told.tick(now);
    ASSERT_TRUE(told.ending());
    EXPECT_EQ(told.ending()->code, 143);
    EXPECT_NE(told.ending()->text.find("SIGTERM"), std::string::npos);
    EXPECT_EQ(leader->phase(), Phase::kForming);
    nodes.erase(link);
    leader->closed(link, now);
  }
  add(4, row(1, 110));
  talk();
  EXPECT_EQ(leader->phase(), Phase::kRunning);
}

// Nor does who waits for a lost node's rank.
TEST_F(NodesTest, WhoWaitsToReplaceStopsNobody) {
  lose_the_third({.nodes = 3, .max_restarts = 3});
  Node& other = add(5, row(5, 105));
  pass(kSecond);
  EXPECT_EQ(other.share().rank, -1);
  other.signalled(SIGTERM);
  pass(kSecond);
  ASSERT_TRUE(other.ending());
  EXPECT_EQ(other.ending()->code, 143);
  EXPECT_EQ(leader->phase(), Phase::kForming);
}

// Whoever waits is seen: at once, with the lost ones it waits for.
TEST_F(NodesTest, WhoIsLostAndWhoWaitsIsTold) {
  lose_the_third({.nodes = 3, .max_restarts = 3});
  EXPECT_NE(nodes.at(1).why().find("node 2 (10.0.0.2) has closed its connection"),
            std::string::npos);
  EXPECT_TRUE(nodes.at(1).waits_for().starts_with("node 2 (10.0.0.2, silent for "));
  Node& other = add(5, row(5, 105));
  pass(kSecond);
  EXPECT_THAT(other.waits_for(),
              testing::ContainsRegex(R"(, 59[0-9]\.[0-9] s left \(--rdzv-conf join_timeout\))"
                                     R"(; waits to be let in: host5 \(10\.0\.0\.5\) in 4)"));
  const View view = leader->view(0, 3, now);
  EXPECT_EQ(view.waits_for, leader->missing(now));
  EXPECT_EQ(view.world, 0U);
  EXPECT_FALSE(view.store);
}

// A leader that has slept for L blames nobody else, whoever tells what has come of it.
TEST_F(NodesTest, ALeaderThatSleptSaysSo) {
  begin({.nodes = 3, .max_restarts = 1});
  add(1, row(1, 101));
  add(2, row(2, 102));
  talk();
  const std::uint64_t end = now + kL + 5 * kSecond;
  for (; now < end; now += kSecond / 4)
    for (const Link link : {1, 2}) nodes.at(link).tick(now);
  EXPECT_NE(nodes.at(1).why().find("node 0 (host0:29400), which leads, was silent for 1"),
            std::string::npos)
      << nodes.at(1).why();
  for (auto& [link, node] : nodes) {
    node.tick(now);
    if (link != kOwnLink) node.workers_gone(false);
  }
  talk();
  nodes.at(kOwnLink).tick(now);
  nodes.at(kOwnLink).workers_gone(false);
  pass(kSecond);
  EXPECT_NE(nodes.at(2).why().find("node 0 (10.0.0.0), which leads, stood still for "),
            std::string::npos)
      << nodes.at(2).why();
}

// One launcher has one rank, by however many connections it comes.
TEST_F(NodesTest, WhoWaitsDialsAnew) {
  begin({.nodes = 3});
  Node& one = add(1, row(1, 101));
  talk();
  leader->heard(2, one.word(now), now);
  EXPECT_EQ(leader->take_dropped(), std::vector<Link>{1});
  leader->heard(1, one.word(now), now);  // late
  ++now;
  leader->heard(2, one.word(now), now);
  EXPECT_EQ(leader->phase(), Phase::kForming);
  EXPECT_FALSE(leader->has_rank(2));
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
  EXPECT_THAT(node.ending()->text,
              testing::HasSubstr("not all nodes came to the launcher at host0:29400 within 600.0 s "
                                 "(--rdzv-conf join_timeout); missing: 1 more node"));
}

class LedBefore : public NodesTest {
 protected:
  // For L, as the fence takes.
  void lead_again(const Leader::Record& record) {
    rules_ = {.nodes = 2, .max_restarts = 3};
    leader.emplace(rules_, row(0, 100), 7, record, now);
    add(kOwnLink, row(0, 100));
    add(1, row(1, 101));
    pass(kL);
    EXPECT_EQ(leader->phase(), Phase::kForming);
  }
};

// Whoever comes to a leader that was killed may know of no attempt, while a node that is cut off
// still has workers of the last one.
TEST_F(LedBefore, ALeaderWithARecordWaitsForTheFence) {
  lead_again({3, 2});
  pass(2 * kSecond);
  EXPECT_EQ(leader->phase(), Phase::kRunning);
  EXPECT_EQ(leader->attempt(), 3U);
  EXPECT_EQ(leader->record().run, 3U);
}

TEST_F(NodesTest, AfterTheLastRestartARecordIsOfAnotherRun) {
  rules_ = {.nodes = 1, .max_restarts = 1};
  leader.emplace(rules_, row(0, 100), 7, Leader::Record{3, 2}, now);
  add(kOwnLink, row(0, 100));
  talk();
  EXPECT_EQ(leader->phase(), Phase::kForming) << "a node that is cut off may have workers of it";
  pass(kL + 2 * kSecond);
  EXPECT_EQ(leader->attempt(), 1U);
  EXPECT_EQ(leader->record().run, 7U);
}

// Somebody has led here; nobody knows for how long still.
TEST_F(LedBefore, ALeaderWithARecordThatCannotBeReadWaitsForTheFence) {
  lead_again({0, 0, true});
  pass(2 * kSecond);
  EXPECT_EQ(leader->phase(), Phase::kRunning);
  EXPECT_EQ(leader->attempt(), 1U);
}

// It waits likewise, for a run that is not its own.
TEST_F(LedBefore, ALeaderWithARecordOfAnotherCommandBeginsAnewAfterTheFence) {
  for (const bool comes : {false, true}) {
    nodes.clear();
    lead_again({3, 2, true});
    if (comes) {  // one that was cut off: it is that run after all, of which it missed attempt 2
      NodeWord word;
      word.row = row(1, 102);
      word.run = 3, word.told = word.ran = 1, word.sent = now;
      leader->heard(2, word, now);
    }
    pass((comes ? kL : 0) + 2 * kSecond);
    EXPECT_EQ(leader->record().run, comes ? 3U : 7U);
    EXPECT_EQ(leader->attempt(), comes ? 3U : 1U) << "and the next one's number is above";
  }
}

TEST_F(NodesTest, OneThatIsNotAloneIsAwaitedAlthoughNobodyKnowsOfAnAttempt) {
  for (const bool alone_soon : {true, false}) {
    nodes.clear();
    begin({.nodes = 2}, 0);
    Node& node = nodes.try_emplace(1, rules_, row(1, 101, 1), now).first->second;
    pass(kSecond);
    EXPECT_EQ(leader->phase(), Phase::kForming) << "an earlier agent's workers live there";
    if (alone_soon) node.has_taken_lock();
    pass(alone_soon ? kSecond : kL - 2 * kSecond);
    EXPECT_EQ(leader->phase(), alone_soon ? Phase::kRunning : Phase::kForming);
    pass(3 * kSecond);
    EXPECT_EQ(leader->phase(), Phase::kRunning);
  }
}

TEST_F(NodesTest, OfTwoOnOneMachineWithoutRanksOneHasTheLock) {
  begin({.nodes = 2});
  Row second = row(1, 101);
  second.machine = row(0, 100).machine;
  nodes.try_emplace(1, rules_, second, now);
  talk();
  EXPECT_EQ(leader->phase(), Phase::kRunning);
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
