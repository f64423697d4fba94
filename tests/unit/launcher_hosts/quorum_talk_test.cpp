// Agents that say to each other who leads, as bytes, over connections that break.
#include "launcher/hosts/quorum_talk.h"

#include <gmock/gmock.h>

#include <deque>
#include <memory>

namespace lockstep::launcher {
namespace {

constexpr std::uint64_t kMilli = 1'000'000;

class QuorumTalkTest : public testing::Test {
 protected:
  static constexpr std::size_t kHosts = 3;
  struct Frame {
    std::size_t from, to;
    std::string bytes;
  };

  QuorumTalkTest() {
    std::vector<quorum::Member> members;
    for (std::size_t h = 0; h < kHosts; ++h)
      members.push_back({static_cast<std::uint16_t>(h), 100 + h});
    for (std::size_t h = 0; h < kHosts; ++h)
      talks.push_back(std::make_unique<QuorumTalk>(
          quorum::Settings{}, members, h,
          [this, h](std::size_t to, std::string bytes) {
            sent += bytes.size();
            frames.push_back({h, to, std::move(bytes)});
          },
          now));
    for (std::size_t h = 0; h < kHosts; ++h)
      for (std::size_t other = 0; other < kHosts; ++other)
        if (other != h) talks[h]->open(other, now);
    agent(0).form({members.begin(), members.end()}, now);
    pass(4'000);  // until those that wait for a set are answered no more
  }
  quorum::Agent& agent(std::size_t host) { return talks[host]->agent(); }
  bool is_gone(std::size_t host) const { return host == gone; }
  void deliver() {
    while (!frames.empty()) {
      const Frame frame = std::move(frames.front());
      frames.pop_front();
      if (is_gone(frame.from) || is_gone(frame.to)) continue;
      const auto heard = talks[frame.to]->hear(frame.from, frame.bytes, now);
      ASSERT_TRUE(heard.ok()) << heard.error().message;
      if (*heard) talks[frame.to]->say(frame.from, now);
      look(frame.to);
    }
  }
  void look(std::size_t host) {
    agent(host).acknowledge(agent(host).facts().stamp, now);
    talks[host]->look(now);
  }
  void pass(std::uint64_t milliseconds) {
    for (std::uint64_t at = 0; at < milliseconds; at += 250) {
      now += 250 * kMilli;
      for (std::size_t h = 0; h < kHosts; ++h) {
        if (is_gone(h)) continue;
        agent(h).pass(now);
        look(h);
        talks[h]->beat(now);
      }
      deliver();
    }
  }

  std::uint64_t now = 1;
  std::vector<std::unique_ptr<QuorumTalk>> talks;
  std::deque<Frame> frames;
  std::size_t sent = 0, gone = kHosts;
};

TEST_F(QuorumTalkTest, AllFollowWhoHasMadeTheFirstSet) {
  for (std::size_t h = 0; h < kHosts; ++h) {
    EXPECT_EQ(agent(h).leader(), talks[h]->member(0));
    EXPECT_TRUE(agent(h).hears_leader(now));
  }
}

TEST_F(QuorumTalkTest, ALargeStateIsSaidOnce) {
  const std::string state(100'000, 's');
  ASSERT_TRUE(agent(0).write(state, now));
  sent = 0;
  pass(2'000);
  for (std::size_t h = 0; h < kHosts; ++h) {
    EXPECT_EQ(agent(h).facts().run, state);
    EXPECT_EQ(agent(h).in_force(), agent(0).facts().stamp);
  }
  EXPECT_LT(sent, 3 * state.size()) << "to two hosts, and not back";
}

TEST_F(QuorumTalkTest, WhatChangesALittleCostsLittle) {
  std::string state;
  for (int line = 0; line < 1'000; ++line) state += "host " + std::to_string(line) + " is here;";
  ASSERT_TRUE(agent(0).write(state, now));
  pass(1'000);
  state.replace(state.find("host 500 is here"), 16, "host 500 is gone");
  ASSERT_TRUE(agent(0).write(state, now));
  sent = 0;
  pass(1'000);
  EXPECT_EQ(agent(2).facts().run, state);
  EXPECT_LT(sent, state.size() / 2);
}

TEST_F(QuorumTalkTest, OnANewConnectionItIsSaidToWhoDoesNotHaveIt) {
  for (const std::size_t other : {0, 2}) talks[other]->close(1), talks[1]->close(other);
  ASSERT_TRUE(agent(0).write("new", now));
  pass(500);
  EXPECT_EQ(agent(2).facts().run, "new");
  EXPECT_NE(agent(1).facts().run, "new");
  talks[0]->open(1, now), talks[1]->open(0, now);
  deliver();
  EXPECT_EQ(agent(1).facts().run, "new");
}

TEST_F(QuorumTalkTest, AnotherOneIsElected) {
  ASSERT_TRUE(agent(0).write("of the first", now));
  pass(1'000);
  gone = 0;
  agent(1).refused(talks[1]->member(0), now);
  agent(2).refused(talks[2]->member(0), now);
  pass(1'500);
  EXPECT_TRUE(agent(1).leads(now));
  EXPECT_EQ(agent(2).leader(), talks[2]->member(1));
  EXPECT_EQ(agent(1).facts().run, "of the first");
}

TEST_F(QuorumTalkTest, WhoseTurnHasComeWaitsForNoBeat) {
  gone = 0;
  for (const std::size_t host : {1, 2}) agent(host).refused(talks[host]->member(0), now);
  now += quorum::Settings{}.stagger;  // of the second place
  for (const std::size_t host : {1, 2}) agent(host).pass(now), look(host);
  deliver();
  EXPECT_TRUE(agent(1).leads(now));
}

TEST_F(QuorumTalkTest, NobodySpeaksForAnother) {
  quorum::Talk third;
  const auto heard = talks[0]->hear(1, third.say(0, agent(2).say({0, 100}, now)), now);
  ASSERT_FALSE(heard.ok());
  EXPECT_THAT(heard.error().message, testing::HasSubstr("another one"));
}

}  // namespace
}  // namespace lockstep::launcher
