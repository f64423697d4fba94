// Each message comes out as it went in, and no bytes at all do harm.
#include "star/messages.h"

#include <gtest/gtest.h>

#include <random>
#include <type_traits>

#include "control/connection.h"

namespace lockstep::star {
namespace {

// One of each, with every field set to something of its own.
std::vector<Message> one_of_each() {
  const std::string odd("\0\xff\n\x1b[31m", 8);
  nodes::NodeWord word;
  word.row = {1, "10.0.0.1", "boot", 2, 3, "trainer", "node1"};
  word.run = 4, word.told = 5, word.ran = 6, word.alive = 7, word.ended = 8;
  word.has_lock = true, word.led_from = "several";
  word.store = nodes::Store{7, "10.0.0.1", 29'500, true};
  word.failure = nodes::Failure{1, 2, odd, -9, true, 3, true, true};
  word.signal = 15, word.signal_by = odd, word.stop_why = odd, word.kill_all = true;
  word.final = nodes::Final{143, odd, 2};
  word.leader = 9, word.sent = 10, word.echo = 11;
  nodes::LeaderWord leader;
  leader.incarnation = 1, leader.machine = "boot", leader.run = 2, leader.rank = 3;
  leader.leader_rank = 1;
  leader.refusal = odd, leader.refusal_code = 69, leader.attempt = 4, leader.runs = true;
  leader.base_rank = 5, leader.world = 6, leader.role_base = 1, leader.role_world = 3;
  leader.store = nodes::Store{4, "10.0.0.1", 29'500, true};
  leader.waits_for = odd, leader.why = odd, leader.signal = 7;
  leader.final = nodes::Final{1, "text"};
  leader.over = true, leader.limit = 8, leader.age = 9, leader.sent = 10, leader.echo = 11;
  message::Answer answer{"run", "node0", "node0:29400", odd, true, {}};
  answer.view = {nodes::View::State::kEnding,
                 true,
                 true,
                 1,
                 0,
                 2,
                 3,
                 4,
                 5,
                 leader.store,
                 odd,
                 6,
                 7,
                 {{0, true, true, true, "10.0.0.1", "node0", 8, 9}, {1, false}},
                 9,
                 odd};
  return {message::Hello{"run",
                         "n",
                         1,
                         2,
                         true,
                         3,
                         {"train.py", "--lr", odd},
                         "a",
                         "1.2",
                         true,
                         "x",
                         "a:1,b:2",
                         true},
          message::Hello{},
          message::Welcome{"node0", "10.0.0.1"},
          message::Refused{message::Reason::kOtherOption, "--nnodes", odd},
          word,
          nodes::NodeWord{},
          leader,
          nodes::LeaderWord{},
          message::Failed{1, 2, 3, -9, 5, "node1", "/e.json", true, odd},
          message::StatusQuery{1024},
          message::StopOrder{odd},
          answer,
          message::Claim{2, 3, 4, 5, 70'000, 6},
          message::Formed{1, 12, 13, {{"10.0.0.1", 7, 70'000, 8, 9, odd}, {"", 1, 2, 3, 4, "x"}}},
          message::Talk{odd},
          message::Leads{3, true}};
}

TEST(ControlMessages, ComeOutAsTheyWentIn) {
  for (const Message& message : one_of_each()) {
    const auto text = encode(message);
    ASSERT_TRUE(text.ok());
    const auto again = decode(*text);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(again->index(), message.index());
    EXPECT_EQ(*encode(*again), *text) << message.index();
  }
  const auto word = std::get<nodes::NodeWord>(*decode(*encode(one_of_each()[4])));
  EXPECT_EQ(word.row.rank, 1);
  EXPECT_EQ(word.failure->code, -9);
  EXPECT_EQ(word.failure->rank, 3);
  EXPECT_TRUE(word.failure->by_signal && word.failure->has_error_file && word.kill_all);
  EXPECT_EQ(word.final->node, 2);
  EXPECT_EQ(word.final->code, 143);
  EXPECT_EQ(word.echo, 11u);
  const auto hello = std::get<message::Hello>(*decode(*encode(one_of_each()[0])));
  EXPECT_EQ(hello, std::get<message::Hello>(one_of_each()[0]));
}

TEST(ControlMessages, OneByteMoreOrLessIsRefused) {
  for (const Message& message : one_of_each()) {
    const std::string text = *encode(message);
    EXPECT_EQ(decode(text + "x").error().kind, ErrorKind::kBadData);
    for (std::size_t bytes = 0; bytes < text.size(); ++bytes)
      ASSERT_FALSE(decode(text.substr(0, bytes)).ok()) << message.index() << " " << bytes;
  }
}

TEST(ControlMessages, OnesTooLongForAFrameAreRefused) {
  EXPECT_EQ(encode(message::Welcome{std::string(control::kMostFrameBytes, 'x'), ""}).error().kind,
            ErrorKind::kUsage);
}

// What is read is written in the same bytes: there is one way to say it.
TEST(ControlMessages, AnyBytesAreAMessageOrRefused) {
  std::mt19937 random(30);
  const auto all = one_of_each();
  int read = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = *encode(all[random() % all.size()]);
    for (auto changes = random() % 4; changes > 0 && !text.empty(); --changes)
      text[random() % text.size()] = static_cast<char>(random());
    const auto message = decode(text);
    if (!message.ok()) continue;
    ++read;
    EXPECT_EQ(*encode(*message), text);
  }
  EXPECT_GT(read, 1000);
}

}  // namespace
}  // namespace lockstep::star
