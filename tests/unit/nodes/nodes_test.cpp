// The rules of nodes/, one by one. tests/simulation/nodes tries them together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nodes/leader.h"
#include "nodes/node.h"

namespace lockstep::nodes {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Phase = Leader::Phase;

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kL = 15 * kSecond;

Row row(int machine, Incarnation incarnation, std::optional<int> rank = {}) {
  return {rank,
          "10.0.0." + std::to_string(machine),
          "machine" + std::to_string(machine),
          incarnation,
          2,
          "default"};
}

// A leader and nodes with one clock; words take no time unless a node is cut off.
class NodesTest : public testing::Test {
 protected:
  void begin(Rules rules, std::optional<int> own_rank = {}) {
    rules_ = rules;
    leader.emplace(rules, row(0, 100, own_rank), 7, Leader::Record{}, now);
    add(kOwnLink, row(0, 100, own_rank));
  }
  Node& add(Link link, const Row& who) {
    Node& node = nodes.try_emplace(link, rules_, who, now).first->second;
    node.alone();
    return node;
  }
  void talk() {
    for (int i = 0; i < 4; ++i)
      for (auto& [link, node] : nodes) {
        if (cut.contains(link)) continue;
        leader->heard(link, node.word(now), now);
        node.heard(leader->word_for(link, now), now);
        if (const Attempt attempt = node.wish().serve; attempt != 0)
          node.serves({attempt, "10.0.0.1", 29'500, true});
        ++now;
      }
    for (auto& [link, node] : nodes)
      if (node.wish().run != 0) node.workers_started();
  }
  // Three nodes run; then the third is cut off, and its connection closes.
  void lose_the_third(Rules rules) {
    begin(rules);
    add(1, row(1, 101));
    add(2, row(2, 102));
    talk();
    cut.insert(2);
    leader->closed(2, now);
    pass(2 * kSecond);
  }
  // Four times a second.
  void pass(std::uint64_t time) {
    for (const std::uint64_t end = now + time; now < end;) {
      now += kSecond / 4;
      leader->tick(now);
      for (auto& [link, node] : nodes) node.tick(now);
      talk();
    }
  }

  Rules rules_;
  std::uint64_t now = kSecond;
  std::optional<Leader> leader;
  std::map<Link, Node> nodes;
  std::set<Link> cut;
};

TEST_F(NodesTest, RanksByArrivalAndTheEndpointIsFirst) {
  begin({.nodes = 3});
  add(1, row(1, 101));
  talk();
  EXPECT_EQ(leader->phase(), Phase::kForming);
  EXPECT_THAT(leader->missing(now), HasSubstr("never seen"));
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
  ASSERT_TRUE(leader->final());
  EXPECT_EQ(leader->final()->code, 3);
  EXPECT_THAT(leader->final()->text, HasSubstr("rank 2 died"));
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

TEST_F(NodesTest, ALostNodeWithoutBudgetEndsTheRunAtOnce) {
  lose_the_third({.nodes = 3});
  ASSERT_TRUE(leader->final());
  EXPECT_EQ(leader->final()->code, 69);
  EXPECT_EQ(nodes.at(1).wish().signal, SIGTERM);
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

TEST_F(NodesTest, NotAllThereInTimeIsToldToAll) {
  begin({.nodes = 3, .join_timeout = 60 * kSecond});
  add(1, row(1, 101));
  pass(62 * kSecond);
  ASSERT_TRUE(nodes.at(1).ending());
  EXPECT_EQ(nodes.at(1).ending()->code, 69);
  EXPECT_THAT(nodes.at(1).ending()->text, HasSubstr("never seen"));
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
