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
                        .anew = true,
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
  const auto said = decode(encode(message(), true));
  ASSERT_TRUE(said.ok()) << said.error().message;
  EXPECT_TRUE(said->has_facts);
  EXPECT_EQ(said->name, (FactsName{{7, 3}, 9}));
  EXPECT_EQ(*said->message.facts, *message().facts);
  EXPECT_EQ(said->message.vote, message().vote);
  EXPECT_FALSE(said->message.obeys);
  EXPECT_EQ(said->message.quorum_age, 12U);
  EXPECT_TRUE(said->message.out);
  EXPECT_EQ(encode(said->message, true), encode(message(), true));
}

TEST(QuorumWire, WithoutFactsTheirNameIsThere) {
  const auto said = decode(encode(message(), false));
  ASSERT_TRUE(said.ok()) << said.error().message;
  EXPECT_FALSE(said->has_facts);
  EXPECT_EQ(said->name, name_of(*message().facts));
  EXPECT_EQ(*said->message.facts, (Facts{.stamp = {7, 3}}));
}

TEST(QuorumWire, WhatCannotBeIsRefused) {
  const std::string bytes = encode(message(), true);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THAT(fault_of(bytes.substr(0, size)), HasSubstr("of who leads")) << size;
  EXPECT_THAT(fault_of(bytes + "x"), HasSubstr("follow the last field"));
  const auto with = [](const Facts& facts) {
    Message said = message();
    said.facts = facts;
    return encode(said, true);
  };
  Facts twice = *message().facts;
  twice.set.members.push_back({0, 70});
  EXPECT_THAT(fault_of(with(twice)), HasSubstr("a member twice"));
  Facts nameless = *message().facts;
  nameless.change.id = 0;
  EXPECT_THAT(fault_of(with(nameless)), HasSubstr("an id or members alone"));
  Facts crowd = *message().facts;
  for (std::uint16_t host = 3; host < 1'100; ++host) crowd.set.members.push_back({host, 1});
  EXPECT_THAT(fault_of(with(crowd)), HasSubstr("the most are 1024"));
}

}  // namespace
}  // namespace lockstep::quorum
