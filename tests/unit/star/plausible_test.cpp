#include "star/plausible.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "star/messages.h"

namespace lockstep::star {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kNow = 5'000'000'000'000;

nodes::NodeWord node_word() {
  nodes::NodeWord word;
  word.row = {1, "10.0.0.1", "machine", 9, 8, "default", "host1"};
  word.told = word.ran = word.alive = 3;
  word.leader = 4;
  word.sent = 17;
  word.echo = kNow - 1;
  return word;
}

nodes::LeaderWord leader_word() {
  nodes::LeaderWord word;
  word.rank = 1;
  word.attempt = 3;
  word.world = 16;
  word.limit = 15'000'000'000;
  word.echo = kNow - 1;
  return word;
}

TEST(Plausible, WhatNodesSay) {
  EXPECT_EQ(implausible(node_word(), 4, kNow), "");
  nodes::NodeWord first;
  first.row = node_word().row;
  EXPECT_EQ(implausible(first, 4, kNow), "");
  nodes::NodeWord of_other_leader = node_word();
  of_other_leader.echo = kNow * 1000;  // of its clock
  EXPECT_EQ(implausible(of_other_leader, 5, kNow), "");
  const std::vector<std::function<void(nodes::NodeWord&)>> wrongs = {
      [](auto& word) { word.row.workers = 0; },
      [](auto& word) { word.row.workers = 1u << 31; },
      [](auto& word) { word.told = ~0ull; },
      [](auto& word) { word.ran = 1ull << 40; },
      [](auto& word) { word.alive = ~0ull; },
      [](auto& word) { word.ended = ~0ull; },
      [](auto& word) { word.signal = 0x7fffffff; },
      [](auto& word) { word.signal = -1; },
      [](auto& word) {
        word.store = nodes::Store{1, "", -1, true};
      },
      [](auto& word) {
        word.store = nodes::Store{1, "", 65'536, true};
      },
      [](auto& word) {
        word.store = nodes::Store{1, std::string(100'000, 'x'), 1, true};
      },
      [](auto& word) {
        word.failure = nodes::Failure{3, ~0ull, "", 1};
      },
      [](auto& word) {
        word.failure = nodes::Failure{3, 0, "", 256};
      },
      [](auto& word) {
        word.final = nodes::Final{-1, ""};
      },
      [](auto& word) { word.sent = ~0ull; },
      [](auto& word) { word.echo = kNow * 2; },
      [](auto& word) { word.row.role = std::string(100'000, 'x'); },
  };
  for (std::size_t i = 0; i < wrongs.size(); ++i) {
    nodes::NodeWord word = node_word();
    wrongs[i](word);
    EXPECT_THAT(implausible(word, 4, kNow), HasSubstr(" is ")) << i;
  }
}

TEST(Plausible, WhatLeadersSay) {
  EXPECT_EQ(implausible(leader_word(), kNow), "");
  nodes::LeaderWord without_rank = leader_word();
  without_rank.rank = -1;
  EXPECT_EQ(implausible(without_rank, kNow), "");
  const std::vector<std::function<void(nodes::LeaderWord&)>> wrongs = {
      [](auto& word) { word.rank = -2; },        [](auto& word) { word.attempt = 1ull << 31; },
      [](auto& word) { word.world = ~0u; },      [](auto& word) { word.base_rank = ~0u; },
      [](auto& word) { word.limit = 0; },        [](auto& word) { word.limit = ~0ull; },
      [](auto& word) { word.echo = kNow * 2; },  [](auto& word) { word.signal = 65; },
      [](auto& word) { word.refusal_code = -1; }};
  for (std::size_t i = 0; i < wrongs.size(); ++i) {
    nodes::LeaderWord word = leader_word();
    wrongs[i](word);
    EXPECT_NE(implausible(word, kNow), "") << i;
  }
}

TEST(Plausible, WhoTakesPart) {
  const message::Formed formed{1,
                               5,
                               3'000'000'000,
                               {{"10.0.0.1", 7000, 70'000, 1, 2, std::string(32, 'c')},
                                {"10.0.0.2", 7000, 70'000, 2, 1, std::string(32, 'd')}}};
  EXPECT_EQ(implausible(formed, 2), "");
  EXPECT_NE(implausible(formed, 3), "");
  const std::vector<std::function<void(message::Formed&)>> wrongs = {
      [](auto& all) { all.self = -1; },
      [](auto& all) { all.self = 2; },
      [](auto& all) { all.run = 0; },
      [](auto& all) { all.limit_ns = 0; },
      [](auto& all) { all.limit_ns = 999'999; },
      [](auto& all) { all.hosts[1].agent_port = 1U << 17U; },
      [](auto& all) { all.hosts[1].workers = 0; },
      [](auto& all) { all.hosts[1].workers = 1025; },
      [](auto& all) { all.hosts[1].cookie = ""; },
      [](auto& all) { all.hosts[0].address = std::string(5000, '1'); }};
  for (std::size_t i = 0; i < wrongs.size(); ++i) {
    message::Formed wrong = formed;
    wrongs[i](wrong);
    EXPECT_NE(implausible(wrong, 2), "") << i;
  }
}

TEST(Plausible, ALongReasonIsCutSoThatTheLeadersWordFits) {
  nodes::NodeWord word = node_word();
  word.failure = nodes::Failure{3, 0, std::string(std::size_t{1} << 20, 'x'), 1};
  word.final = nodes::Final{1, std::string(std::size_t{1} << 20, 'y')};
  shorten(word);
  EXPECT_TRUE(star::encode(word).ok());
  EXPECT_LT(word.failure->text.size(), 20'000u);
}

}  // namespace
}  // namespace lockstep::star
