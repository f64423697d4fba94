// Agents' words as bytes: which facts they carry, and what becomes of those that cannot be read.
#include "quorum/talk.h"

#include <gmock/gmock.h>

namespace lockstep::quorum {
namespace {

// Two that speak with each other.
class TalkTest : public testing::Test {
 protected:
  static Message with(std::uint64_t seq, Role role = Role::kFollows) {
    Message message;
    message.from = {0, 1};
    message.role = role;
    message.facts = facts(seq);
    return message;
  }
  static SharedFacts facts(std::uint64_t seq) {
    std::string run;
    for (std::uint64_t line = 0; line < 200; ++line)
      run += "line " + std::to_string(line == 100 ? 1000 + seq : line) + ";";
    return Facts{
        .stamp = {1, seq}, .history = 5, .set = {.id = 5, .members = {{0, 1}, {1, 2}}}, .run = run};
  }
  static Carried::As as(const std::string& bytes) { return decode(bytes)->facts.as; }
  static bool unread(const std::string& bytes) { return decode(bytes)->facts.unread; }
  static Talk::Heard hear(Talk& at, const std::string& bytes) {
    auto heard = at.hear(0, bytes);
    EXPECT_TRUE(heard.ok()) << heard.error().message;
    return *heard;
  }
  // Both have the same facts, and have named them.
  void meet(std::uint64_t seq) {
    hear(there_, here_.say(0, with(seq)));
    hear(here_, there_.say(0, with(seq)));
    ASSERT_TRUE(hear(there_, here_.say(0, with(seq))).message);
  }

  Talk here_, there_;
};

TEST_F(TalkTest, FirstTheirNameIsSaidThenDifferencesToWhatTheOtherHas) {
  const std::string first = here_.say(0, with(1));
  EXPECT_EQ(as(first), Carried::kName);
  EXPECT_FALSE(hear(there_, first).message);
  const std::string lacks = there_.say(0, Message{});
  EXPECT_TRUE(unread(lacks));
  EXPECT_TRUE(hear(here_, lacks).answer);
  const std::string second = here_.say(0, with(1));
  EXPECT_EQ(as(second), Carried::kDifference);
  EXPECT_EQ(*hear(there_, second).message->facts, *facts(1));
  EXPECT_EQ(as(here_.say(0, with(1))), Carried::kName) << "once";
  EXPECT_EQ(as(there_.say(0, with(1))), Carried::kName) << "the other has named them";
  hear(here_, there_.say(0, with(1)));
  const std::string third = here_.say(0, with(3));
  EXPECT_EQ(as(third), Carried::kDifference);
  EXPECT_LT(third.size(), 300U);
  EXPECT_EQ(*hear(there_, third).message->facts, *facts(3));
}

// As of an election: the others have them from the leader that is lost.
TEST_F(TalkTest, WhoHasTheSameFactsReadsTheirNameAtOnce) {
  here_.say(1, with(4)), there_.say(1, with(4));
  const std::string said = here_.say(0, with(4));
  EXPECT_EQ(as(said), Carried::kName);
  EXPECT_EQ(*hear(there_, said).message->facts, *facts(4));
}

TEST_F(TalkTest, OnANewConnectionNothingCountsThatWasSaidBefore) {
  meet(1);
  Talk again;  // the other one is another
  here_.open(0);
  const std::string first = here_.say(0, with(2));
  EXPECT_EQ(as(first), Carried::kName);
  EXPECT_FALSE(hear(again, first).message);
  hear(here_, again.say(0, Message{}));
  const std::string said = here_.say(0, with(2));
  EXPECT_EQ(*hear(again, said).message->facts, *facts(2));
}

// Else the voter's newer facts would be missing where its vote counts.
TEST_F(TalkTest, AMessageWhoseFactsWereLostIsNotHeardUntilTheyAreSaidAgain) {
  meet(1);
  there_.say(0, with(2));  // lost
  Message vote = with(2);
  vote.vote = Member{0, 1};
  const std::string said = there_.say(0, vote);
  EXPECT_EQ(as(said), Carried::kName);
  const Talk::Heard heard = hear(here_, said);
  EXPECT_FALSE(heard.message);
  EXPECT_TRUE(heard.answer);
  const std::string asks = here_.say(0, with(1));
  EXPECT_TRUE(unread(asks));
  const Talk::Heard asked = hear(there_, asks);
  EXPECT_TRUE(asked.message && asked.answer);
  const std::string again = there_.say(0, vote);
  EXPECT_EQ(as(again), Carried::kDifference);
  EXPECT_FALSE(unread(again));
  const Talk::Heard at_last = hear(here_, again);
  ASSERT_TRUE(at_last.message);
  EXPECT_EQ(*at_last.message->facts, *facts(2));
  EXPECT_EQ(at_last.message->vote, vote.vote);
  EXPECT_FALSE(unread(here_.say(0, with(1)))) << "told once";
}

TEST_F(TalkTest, ADifferenceToFactsThatAreNotThereAnyMoreIsNotHeardAndIsSaidWhole) {
  meet(1);
  const std::string said = there_.say(0, with(50));
  EXPECT_EQ(as(said), Carried::kDifference);
  for (std::uint64_t seq = 2; seq < 20; ++seq) here_.say(1, with(seq));
  EXPECT_FALSE(hear(here_, said).message);
  EXPECT_TRUE(hear(there_, here_.say(0, with(1))).answer);
  const std::string whole = there_.say(0, with(50));
  EXPECT_EQ(as(whole), Carried::kWhole);
  EXPECT_EQ(*hear(here_, whole).message->facts, *facts(50));
}

TEST_F(TalkTest, WhoIsFarBehindTheLeaderGetsThemWhole) {
  meet(1);
  for (std::uint64_t seq = 2; seq < 20; ++seq) here_.say(1, with(seq));
  const std::string said = here_.say(0, with(20, Role::kLeads));
  EXPECT_EQ(as(said), Carried::kWhole);
  EXPECT_EQ(*hear(there_, said).message->facts, *facts(20));
}

// As of an election, where what others have named was long ago: they have the same, or ask.
TEST_F(TalkTest, WhoDoesNotLeadSaysTheNameAloneUntilItIsAsked) {
  meet(1);
  for (std::uint64_t seq = 2; seq < 20; ++seq) here_.say(1, with(seq));
  const std::string said = here_.say(0, with(20, Role::kAsks));
  EXPECT_EQ(as(said), Carried::kName);
  EXPECT_FALSE(hear(there_, said).message);
  EXPECT_TRUE(hear(here_, there_.say(0, with(1))).answer);
  const std::string whole = here_.say(0, with(20, Role::kAsks));
  EXPECT_EQ(as(whole), Carried::kWhole);
  EXPECT_EQ(*hear(there_, whole).message->facts, *facts(20));
}

// What follows from them comes behind it on the same connection.
TEST_F(TalkTest, TheLeaderSaysThemWholeOnANewConnection) {
  meet(1);
  here_.open(0), there_.open(0);
  const std::string said = here_.say(0, with(2, Role::kLeads));
  EXPECT_EQ(as(said), Carried::kWhole);
  EXPECT_EQ(*hear(there_, said).message->facts, *facts(2));
}

TEST_F(TalkTest, BothMayLackWhatTheOtherNames) {
  meet(1);
  here_.say(0, with(2)), there_.say(0, with(3));  // both are lost
  EXPECT_FALSE(hear(there_, here_.say(0, with(2))).message);
  EXPECT_FALSE(hear(here_, there_.say(0, with(3))).message);
  Talk::Heard heard;
  int words = 0;
  do {
    heard = hear(there_, here_.say(0, with(2)));
    if (!heard.message) hear(here_, there_.say(0, with(3)));
  } while (!heard.message && ++words < 5);
  EXPECT_TRUE(heard.message);
  for (words = 0; words < 3 && !hear(here_, there_.say(0, with(3))).message; ++words)
    hear(there_, here_.say(0, with(2)));
  EXPECT_LT(words, 3);
}

// Of two that make a first set, say.
TEST_F(TalkTest, TheSameStampIsNotTheSameFacts) {
  meet(1);
  Message other = with(1);
  Facts facts = *other.facts;
  facts.run[1'000] ^= 1;
  other.facts = facts;
  const std::string said = here_.say(0, other);
  EXPECT_EQ(as(said), Carried::kDifference);
  EXPECT_EQ(*hear(there_, said).message->facts, facts);
}

TEST_F(TalkTest, DamagedFactsAreNotHeard) {
  meet(1);
  const std::string bytes = here_.say(0, with(2));
  const auto said = decode(bytes);
  ASSERT_EQ(said->facts.as, Carried::kDifference);
  Carried wrong = said->facts;
  for (std::size_t at = 0; at < said->facts.bytes.size(); ++at) {
    std::string damaged(said->facts.bytes);
    damaged[at] ^= 1;
    wrong.bytes = damaged;
    EXPECT_FALSE(hear(there_, encode(said->message, wrong)).message) << at;
  }
  wrong.as = Carried::kWhole;
  const std::string whole = encode(*facts(3));
  wrong.bytes = whole;
  const auto heard = there_.hear(0, encode(said->message, wrong));
  ASSERT_FALSE(heard.ok());
  EXPECT_THAT(heard.error().message, testing::HasSubstr("another name than its own"));
}

}  // namespace
}  // namespace lockstep::quorum
