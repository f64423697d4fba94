#include "quorum/agent.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::quorum {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000, kBeat = 250'000'000;

// Agents that hear each other at once, but those that are cut off.
class AgentTest : public testing::Test {
 protected:
  void begin(std::uint16_t count, const Settings& settings = {}) {
    Members all;
    for (std::uint16_t h = 0; h < count; ++h) {
      agents_.emplace_back(settings, Member{h, 10U + h}, now_);
      all.insert(agents_.back().self());
    }
    beat(2);
    ASSERT_TRUE(agents_[0].form(all, now_));
    beat(3);
  }
  void beat(int times = 1) {
    for (int i = 0; i < times; ++i, now_ += kBeat)
      for (Agent& from : agents_) {
        if (cut_.contains(from.self()) || from.ending()) continue;
        from.pass(now_);
        from.acknowledge(from.facts().stamp, now_);
        for (Agent& to : agents_)
          if (from.self() != to.self() && from.speaks_to(to.self(), now_)) say(from, to);
      }
  }
  void say(Agent& from, Agent& to) {
    ++words_;
    if (cut_.contains(to.self()) || to.ending()) return;
    if (to.hear(from.say(to.self(), now_), now_)) say(to, from);
  }
  Members set_at(std::size_t host) const {
    const auto& members = agents_[host].facts().set.members;
    return {members.begin(), members.end()};
  }

  std::uint64_t now_ = kSecond;
  std::vector<Agent> agents_;
  Members cut_;
  std::size_t words_ = 0;
};

TEST_F(AgentTest, TheFirstSetIsInForceWhenAllHaveIt) {
  begin(3);
  EXPECT_TRUE(agents_[0].leads(now_));
  for (std::size_t h = 0; h < 3; ++h) EXPECT_EQ(set_at(h).size(), 3U) << h;
  EXPECT_EQ(agents_[2].leader(), agents_[0].self());
}

// Who makes it says so again with each heartbeat: whoever has not been heard for L is not in it.
TEST_F(AgentTest, WhoIsSilentBeforeTheFirstSetIsInForceIsNotInIt) {
  Members all;
  for (std::uint16_t h = 0; h < 4; ++h) {
    agents_.emplace_back(Settings{}, Member{h, 10U + h}, now_);
    all.insert(agents_.back().self());
  }
  cut_.insert(agents_[2].self());
  for (int i = 0; i < 12; ++i, beat()) {
    agents_[0].form(all, now_);
    ASSERT_TRUE(agents_[0].facts().change.has(agents_[2].self())) << "it may yet speak";
    ASSERT_FALSE(agents_[0].facts().set);
  }
  agents_[0].form(all, now_);
  beat(2);
  EXPECT_EQ(set_at(3), (Members{agents_[0].self(), agents_[1].self(), agents_[3].self()}));
}

TEST_F(AgentTest, TheNextOfTheOrderLeadsWhenTheLeaderIsSilent) {
  begin(3);
  cut_.insert(agents_[0].self());
  beat(12 + 2 + 2);
  EXPECT_TRUE(agents_[1].leads(now_));
  EXPECT_TRUE(agents_[1].decide({agents_[1].self(), agents_[2].self()}, "1", now_));
  beat(2);
  EXPECT_EQ(set_at(2), (Members{agents_[1].self(), agents_[2].self()}));
  EXPECT_EQ(agents_[2].facts().run, "1");
}

// Followers say nothing to each other: they are not silent because of that.
TEST_F(AgentTest, ANewLeaderMissesTheOldOneAloneAtOnce) {
  begin(5);
  beat(20);  // far more than L, in which the next one hears the leader alone
  cut_ = {agents_[0].self(), agents_[4].self()};
  while (!agents_[1].leads(now_) && now_ < 100 * kSecond) beat();
  ASSERT_TRUE(agents_[1].leads(now_));
  const std::uint64_t elected = now_;
  EXPECT_EQ(agents_[1].silent(now_), Members{agents_[0].self()});
  beat(8);
  EXPECT_EQ(agents_[1].silent(now_), Members{agents_[0].self()});
  beat(4 + 1);
  EXPECT_EQ(agents_[1].silent(now_), (Members{agents_[0].self(), agents_[4].self()}));
  EXPECT_LE(now_, elected + 4 * kSecond);
}

TEST_F(AgentTest, WhoHasSleptMissesNobodyWhoseWordsItMayNotHaveRead) {
  begin(3);
  cut_ = {agents_[2].self()};
  beat(9);
  now_ += kSecond;  // all stand still
  agents_[0].pass(now_);
  EXPECT_TRUE(agents_[0].silent(now_).empty());
  beat(12 + 1);
  EXPECT_EQ(agents_[0].silent(now_), Members{agents_[2].self()});
}

// Or it would be taken for dead by the next one, whose turn comes first.
TEST_F(AgentTest, ALeaderThatHasLostItsQuorumSpeaksOn) {
  begin(3, {.stagger = 60 * kSecond});
  cut_ = {agents_[0].self()};
  while (!agents_[1].leads(now_) && now_ < 100 * kSecond) beat();
  cut_.insert(agents_[2].self());
  beat(12 + 2);
  ASSERT_EQ(agents_[1].role(), Role::kFollows);
  ASSERT_FALSE(agents_[1].has_turn(now_));
  EXPECT_TRUE(agents_[1].speaks_to(agents_[2].self(), now_));
}

TEST_F(AgentTest, AllSpeakWithTheLeaderAlone) {
  constexpr std::size_t kMany = 300;
  begin(kMany);
  beat(2);  // until all have said that they hear it
  words_ = 0;
  beat();
  EXPECT_EQ(words_, 2 * (kMany - 1));
  // Then all are silent but the next of the order, who asks, is answered, and leads.
  cut_.insert(agents_[0].self());
  words_ = 0;
  beat(12 + 2 + 2);
  EXPECT_TRUE(agents_[1].leads(now_));
  EXPECT_LE(words_, (12 + 2 + 12) * kMany);
  EXPECT_EQ(agents_[kMany - 1].leader(), agents_[1].self());
}

TEST_F(AgentTest, TwoThatAskAtOnceAreApartAtTheirNextTry) {
  begin(3);
  cut_.insert(agents_[0].self());
  Agent &second = agents_[1], &third = agents_[2];
  for (int wait = 0; wait < 2; ++wait) {  // until both are silent, until it is the turn of both
    now_ += 5 * kSecond;
    for (Agent* agent : {&second, &third}) agent->pass(now_);
  }
  const Message from_second = second.say(third.self(), now_);
  const Message from_third = third.say(second.self(), now_);
  third.hear(from_second, now_);
  second.hear(from_third, now_);
  ASSERT_EQ(second.role(), Role::kAsks);
  ASSERT_EQ(third.role(), Role::kAsks);
  beat(3 + 2 + 1);  // L / 4, its place, the answer
  EXPECT_TRUE(second.leads(now_));
  EXPECT_EQ(third.leader(), second.self());
}

TEST_F(AgentTest, AtOnceWhereItsPortIsRefused) {
  begin(3);
  cut_.insert(agents_[0].self());
  for (std::size_t h : {1U, 2U}) agents_[h].refused(agents_[0].self(), now_);
  beat(4);
  EXPECT_TRUE(agents_[1].leads(now_));
}

TEST_F(AgentTest, OfTwoWithALockFileWhoeverHasItGoesOn) {
  for (const std::size_t one : {0U, 1U}) {
    agents_.clear();
    begin(2, {.by_file = true});
    Agent& agent = agents_[one];
    cut_ = {agents_[1 - one].self()};
    EXPECT_FALSE(agent.wanted_file(now_)) << one;
    beat(12 + 60);  // for as long as it is not answered
    const std::uint64_t set = agent.facts().set.id;
    EXPECT_FALSE(agent.leads(now_)) << one;
    ASSERT_EQ(agent.wanted_file(now_), set) << one;
    agent.file_answered(set, true, now_);
    beat(4);
    EXPECT_TRUE(agent.leads(now_)) << one;
    EXPECT_TRUE(agent.decide({agent.self()}, "alone", now_)) << one;
    beat();
    EXPECT_EQ(set_at(one), Members{agent.self()});
    cut_.clear();
  }
}

// What the other one has said meanwhile waits to be read.
TEST_F(AgentTest, WhoHasSleptDoesNotAskForTheLockFileAtOnce) {
  begin(2, {.by_file = true});
  now_ += 5 * kSecond;
  agents_[1].pass(now_);
  EXPECT_FALSE(agents_[1].wanted_file(now_));
  cut_ = {agents_[0].self()};
  beat(12 + 1);
  EXPECT_TRUE(agents_[1].wanted_file(now_));
}

TEST_F(AgentTest, WhoIsDeniedTheLockFileEndsResumable) {
  begin(2, {.by_file = true});
  cut_ = {agents_[0].self()};
  beat(12);
  agents_[1].file_answered(*agents_[1].wanted_file(now_), false, now_);
  EXPECT_TRUE(agents_[1].is_denied_file());
  EXPECT_FALSE(agents_[1].open_file());
  beat(36 + 1);
  ASSERT_TRUE(agents_[1].ending().has_value());
  EXPECT_EQ(agents_[1].ending()->code, 75);
}

TEST_F(AgentTest, ALeaderMayAskForTheLockFileToTakeOutTheOther) {
  begin(2, {.by_file = true});
  Agent& leader = agents_[0];
  EXPECT_FALSE(leader.decide({leader.self()}, "", now_));
  ASSERT_TRUE(leader.open_file());
  EXPECT_FALSE(leader.wanted_file(now_));
  leader.file_answered(*leader.open_file(), true, now_);
  EXPECT_TRUE(leader.decide({leader.self()}, "", now_));
  beat(2);
  EXPECT_TRUE(agents_[1].is_out());
}

TEST_F(AgentTest, WithAFinalInForceNoLockFileIsWanted) {
  begin(2, {.by_file = true});
  cut_ = {};
  ASSERT_TRUE(agents_[0].end(3, "", now_));
  agents_[0].acknowledge(agents_[0].facts().stamp, now_);
  say(agents_[0], agents_[1]);
  agents_[1].acknowledge(agents_[1].facts().stamp, now_);
  say(agents_[1], agents_[0]);
  say(agents_[0], agents_[1]);
  ASSERT_TRUE(agents_[1].facts().final && agents_[1].facts().final->in_force);
  cut_ = {agents_[0].self()};
  beat(12 + 2);
  EXPECT_FALSE(agents_[1].wanted_file(now_));
  beat(36);
  ASSERT_TRUE(agents_[1].ending().has_value());
  EXPECT_EQ(agents_[1].ending()->code, 3);
}

TEST_F(AgentTest, WithoutAQuorumItEndsResumable) {
  begin(3);
  cut_ = {agents_[0].self(), agents_[1].self()};
  beat(12 + 36 + 1);
  ASSERT_TRUE(agents_[2].ending().has_value());
  EXPECT_EQ(agents_[2].ending()->why, Ending::kNoQuorum);
  EXPECT_EQ(agents_[2].ending()->code, 75);
  EXPECT_EQ(agents_[2].ending()->waited, 9 * kSecond);
}

// Each of them may be the one that is elected.
TEST_F(AgentTest, OfManyItWaitsUntilAllHaveHadTheirTurn) {
  constexpr std::uint16_t kMany = 40;
  begin(kMany);
  const Agent& last = agents_.back();
  for (const Agent& agent : agents_)
    if (agent.self() != last.self()) cut_.insert(agent.self());
  beat(12 + 47);
  EXPECT_FALSE(last.ending().has_value());
  beat(2);
  ASSERT_TRUE(last.ending().has_value());
  EXPECT_EQ(last.ending()->waited, 12 * kSecond);  // 2 L, and 150 ms for each
}

TEST_F(AgentTest, PlainWorkersRunUntilTheFenceFalls) {
  begin(2, {.plain = true});
  beat(4);
  ASSERT_TRUE(agents_[0].start_attempt(now_));
  beat(2);
  EXPECT_NE(agents_[1].attempt(), Stamp{});
  cut_.insert(agents_[1].self());
  beat(9);
  agents_[1].pass(now_);
  EXPECT_NE(agents_[1].attempt(), Stamp{});
  beat(3);
  agents_[1].pass(now_);
  EXPECT_EQ(agents_[1].attempt(), Stamp{});
}

TEST_F(AgentTest, AllEndWithTheFinalOnceAllKnowIt) {
  begin(3);
  ASSERT_TRUE(agents_[0].end(3, "", now_));
  EXPECT_FALSE(agents_[0].end(4, "", now_));
  beat(4);
  for (const Agent& agent : agents_) {
    ASSERT_TRUE(agent.ending().has_value());
    EXPECT_EQ(agent.ending()->code, 3);
  }
}

}  // namespace
}  // namespace lockstep::quorum
