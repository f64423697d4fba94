// What agents say to each other, as bytes.
#include "quorum/wire.h"

#include <gmock/gmock.h>

namespace lockstep::quorum {
namespace {

using testing::HasSubstr;

Message message() {
  Message message;
  message.from = {2, 77};
  message.sent = 5, message.echo = 6, message.term = 7;
  message.role = Role::kLeads;
  message.vote = Member{1, 8};
  message.facts = Facts{.stamp = {7, 3},
                        .history = 9,
                        .set = {.id = 9, .members = {{0, 70}, {1, 8}, {2, 77}}},
                        .change = {.id = 11, .members = {{1, 8}, {2, 77}}},
                        .changes = 4,
                        .attempt = {6, 1},
                        .stop = Verdict{143, "stopped", true, false},
                        .final = Verdict{0, "", true, true},
                        .run = std::string("a\0state", 7)};
  message.acknowledged = {7, 2}, message.in_force = {7, 1};
  message.quorum_age = 12;
  message.hears = message.you_were_in = message.out = true;
  return message;
}

std::string fault_of(std::string_view bytes) {
  const auto said = decode(bytes);
  return said.ok() ? "" : said.error().message;
}

TEST(QuorumWire, AMessageIsReadAgain) {
  const Carried whole{.name = {{7, 3}, 9}, .as = Carried::kWhole, .base = {}, .bytes = "facts"};
  const std::string bytes = encode(message(), whole);
  const auto said = decode(bytes);
  ASSERT_TRUE(said.ok()) << said.error().message;
  EXPECT_EQ(said->facts.name, whole.name);
  EXPECT_EQ(said->facts.bytes, "facts");
  EXPECT_FALSE(said->facts.unread);
  EXPECT_EQ(said->message.vote, message().vote);
  EXPECT_FALSE(said->message.obeys);
  EXPECT_EQ(said->message.quorum_age, 12U);
  EXPECT_TRUE(said->message.out);
  EXPECT_EQ(encode(said->message, said->facts), bytes);
}

TEST(QuorumWire, ItMayCarryOfItsFactsTheirNameOrADifference) {
  const Carried name{.name = {{7, 3}, 9}, .unread = true};
  const std::string bytes = encode(message(), name);
  const auto said = decode(bytes);
  ASSERT_TRUE(said.ok()) << said.error().message;
  EXPECT_EQ(said->facts.as, Carried::kName);
  EXPECT_TRUE(said->facts.unread);
  const Carried difference{
      .name = {{7, 3}, 9}, .as = Carried::kDifference, .base = {{7, 2}, 8}, .bytes = "less"};
  const std::string other = encode(message(), difference);
  const auto less = decode(other);
  ASSERT_TRUE(less.ok()) << less.error().message;
  EXPECT_EQ(less->facts.base, difference.base);
  EXPECT_EQ(less->facts.bytes, "less");
  for (std::size_t size = 0; size < other.size(); ++size)
    EXPECT_THAT(fault_of(other.substr(0, size)), HasSubstr("of who leads")) << size;
  EXPECT_THAT(fault_of(other + "x"), HasSubstr("follow the last field"));
}

std::string fault_of(const Facts& facts) {
  const auto read = decode_facts(encode(facts));
  return read.ok() ? "" : read.error().message;
}

TEST(QuorumWire, FactsAreReadAgain) {
  const Facts facts = *message().facts;
  const auto read = decode_facts(encode(facts));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, facts);
}

TEST(QuorumWire, FactsThatCannotBeAreRefused) {
  const std::string bytes = encode(*message().facts);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_facts(bytes.substr(0, size)).ok()) << size;
  EXPECT_FALSE(decode_facts(bytes + "x").ok());
  Facts twice = *message().facts;
  twice.set.members.push_back({0, 70});
  EXPECT_THAT(fault_of(twice), HasSubstr("a member twice"));
  Facts nameless = *message().facts;
  nameless.change.id = 0;
  EXPECT_THAT(fault_of(nameless), HasSubstr("an id or members alone"));
  Facts crowd = *message().facts;
  for (std::uint16_t host = 3; host < 1'100; ++host) crowd.set.members.push_back({host, 1});
  EXPECT_THAT(fault_of(crowd), HasSubstr("the most are 1024"));
}

}  // namespace
}  // namespace lockstep::quorum
