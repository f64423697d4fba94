#include "link/pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_board.h"

namespace lockstep::link {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

class PairTest : public testing::Test {
 protected:
  PairTest() { board_.put(table_with(0, {kA, kB, kC})); }

  std::vector<Item> sendable() { return pair_.sendable(board_, owners_); }
  static Have told(std::vector<Item> marked = {table_of(0)}) {
    std::ranges::sort(marked);
    return {.lowest = 0, .marked = std::move(marked)};
  }
  static Item node(std::uint64_t txn, std::uint32_t leaf, std::uint32_t c) {
    return {.txn = Txn(txn), .kind = Kind::kNode, .host = 0, .node = leaf, .index = c};
  }

  FakePlan plan_;
  FakeBoard board_;
  BoardOwners owners_{plan_};
  Pair pair_{kA, kB};  // what A sends to B
};

TEST_F(PairTest, SendsWhatItsHostOwnsAndTheOtherLacks) {
  board_.put(record(0, 0)).put(record(0, 2)).put(chunk(0, 0));
  EXPECT_THAT(sendable(), IsEmpty()) << "no Have has come";
  pair_.open(told({table_of(0), chunk(0, 0)}));
  EXPECT_THAT(sendable(), ElementsAre(record(0, 0)));
  pair_.sent(record(0, 0));
  EXPECT_THAT(sendable(), IsEmpty());
}

TEST_F(PairTest, SendsNodesToWhoeverOwnsTheChunk) {
  board_.put(node(0, 0, 1)).put(node(0, 0, 2));
  pair_.open(told());
  EXPECT_THAT(sendable(), ElementsAre(node(0, 0, 1)));
  board_.append(coord::death_of(kC));  // its chunk 2 goes to A, the first of the two
  EXPECT_THAT(sendable(), ElementsAre(node(0, 0, 1)));
  pair_.open(told({table_of(0), chunk(0, 1)}));
  EXPECT_THAT(sendable(), IsEmpty()) << "B has summed it";
}

TEST_F(PairTest, ATableGoesBeforeAllThatIsMadeUnderIt) {
  board_.put(table_with(1, {kA, kB, kC})).put(record(1, 0)).put(table_with(2, {kA, kB, kC}));
  pair_.open(told());
  EXPECT_THAT(sendable(), ElementsAre(table_of(1)));
  pair_.sent(table_of(1));
  EXPECT_THAT(sendable(), ElementsAre(table_of(2), record(1, 0)));
}

// So whoever has a donor's record knows that there is a copy.
TEST_F(PairTest, WhatIsSaidOfNewcomersComesBeforeRecordsAndBehindItsTable) {
  board_.put(record(0, 0)).coming = {loading_of(0, 0), ready_of(0, kA, 3)};
  pair_.open(told());
  EXPECT_THAT(sendable(), ElementsAre(ready_of(0, kA, 3), loading_of(0, 0), record(0, 0)));
  for (const Item& item : sendable()) pair_.sent(item);
  EXPECT_THAT(sendable(), IsEmpty());
  board_.put(table_with(1, {kA, kB, kC})).coming = {ready_of(1, kA, 3)};
  EXPECT_THAT(sendable(), ElementsAre(table_of(1)));
  pair_.sent(table_of(1));
  EXPECT_THAT(sendable(), ElementsAre(ready_of(1, kA, 3)));
  pair_.sent(ready_of(1, kA, 3));
  pair_.open(told({table_of(0), table_of(1), record(0, 0)}));
  EXPECT_THAT(sendable(), ElementsAre(ready_of(1, kA, 3))) << "on a new pair again";
  board_.append(coord::death_of(kA));
  EXPECT_THAT(sendable(), IsEmpty());
}

// Members wait for it, and who made it may be gone.
TEST_F(PairTest, WhatIsJudgedIsSaidOnByWhoeverHasItBehindItsTable) {
  board_.put(table_with(1, {kA, kB, kC})).judgements = {judged_of(1, 2)};
  pair_.open(told());
  EXPECT_THAT(sendable(), ElementsAre(table_of(1)));
  pair_.sent(table_of(1));
  EXPECT_THAT(sendable(), ElementsAre(judged_of(1, 2)));
  pair_.came(judged_of(1, 2));
  EXPECT_THAT(sendable(), IsEmpty());
  pair_.open({.lowest = 2, .marked = {table_of(2)}});
  EXPECT_THAT(sendable(), ElementsAre(judged_of(1, 2))) << "all else is whole there";
}

TEST_F(PairTest, WhoeverPublishedTheTable) {
  Pair pair(kC, kB);
  board_.put(table_with(1, {kA, kB, kC})).put(record(1, 2));
  pair.open(told());
  EXPECT_THAT(pair.sendable(board_, owners_), ElementsAre(table_of(1)));
  pair.came(table_of(1));  // the other way
  EXPECT_THAT(pair.sendable(board_, owners_), ElementsAre(record(1, 2)));
}

TEST_F(PairTest, WhoeverIsOutGetsFillsAlone) {
  board_.put(record(0, 0)).put(record(0, 2));
  pair_.open(told());
  pair_.obey({.out = {kB}, .fills = {{.to = 1, .item = record(0, 2)}}});
  EXPECT_THAT(sendable(), ElementsAre(record(0, 2)));
  pair_.obey({.out = {kA}, .fills = {{.to = 1, .item = record(0, 2)}}});
  EXPECT_THAT(sendable(), ElementsAre(record(0, 2))) << "A itself is out of the table";
  pair_.obey({});
  EXPECT_THAT(sendable(), ElementsAre(record(0, 0)));
  board_.append(coord::death_of(kB));
  EXPECT_THAT(sendable(), IsEmpty());
}

TEST_F(PairTest, ATransactionWhoseTableDoesNotListTheOtherIsNotForIt) {
  board_.put(table_with(1, {kA, kC})).put(record(1, 0)).put(record(0, 0));
  pair_.open(told());
  EXPECT_THAT(sendable(), Not(Contains(record(1, 0))));
}

TEST_F(PairTest, FillsOutliveTheirConnection) {
  board_.put(record(0, 2)).put(chunk(0, 2));
  pair_.obey({.fills = {{.to = 1, .item = record(0, 2)},
                        {.to = 1, .item = chunk(0, 2)},
                        {.to = 2, .item = record(0, 1)}}});
  pair_.open(told());
  EXPECT_THAT(sendable(), ElementsAre(chunk(0, 2), record(0, 2)));
  pair_.sent(record(0, 2));
  pair_.close();
  EXPECT_THAT(sendable(), IsEmpty());
  pair_.open(told({table_of(0), chunk(0, 2)}));
  EXPECT_THAT(sendable(), ElementsAre(record(0, 2)));
}

TEST_F(PairTest, AFillWaitsForItsTable) {
  board_.put(table_with(1, {kA, kB, kC})).put(record(1, 2));
  pair_.obey({.fills = {{.to = 1, .item = record(1, 2)}}});
  pair_.open(told());
  EXPECT_THAT(sendable(), ElementsAre(table_of(1)));
  pair_.sent(table_of(1));
  EXPECT_THAT(sendable(), ElementsAre(record(1, 2)));
}

TEST_F(PairTest, ANewcomerGetsWhatItHasTheStateOfBeforeATableListsIt) {
  Pair pair(kA, Stay{3, 1});
  board_.put(table_with(1, {kA, kB, kC})).put(record(0, 0)).put(record(1, 0));
  pair.open({.first = kNever});
  EXPECT_THAT(pair.sendable(board_, owners_), IsEmpty());
  pair.comes(1);
  EXPECT_THAT(pair.sendable(board_, owners_), ElementsAre(table_of(1))) << "its first";
  pair.sent(table_of(1));
  EXPECT_THAT(pair.sendable(board_, owners_), ElementsAre(record(1, 0)));
  pair.comes({});
  EXPECT_THAT(pair.sendable(board_, owners_), IsEmpty());
}

TEST(Landings, OneInAPlaceWhateverItsTransaction) {
  FakeBoard board;
  Landings landings;
  using Fate = Landings::Fate;
  EXPECT_EQ(landings.begin(board, chunk(1, 0), 1), Fate::kLands);
  EXPECT_EQ(landings.begin(board, chunk(2, 0), 2), Fate::kAside);
  EXPECT_EQ(landings.begin(board, record(1, 0), 2), Fate::kLands);
  EXPECT_EQ(landings.begin(board, record(2, 0), 2), Fate::kLands) << "another region";
  landings.end(chunk(1, 0));
  board.put(chunk(1, 0));
  EXPECT_EQ(landings.begin(board, chunk(1, 0), 2), Fate::kBin);
  EXPECT_EQ(landings.begin(board, chunk(2, 0), 2), Fate::kLands);
  landings.drop(2);
  EXPECT_EQ(landings.begin(board, chunk(2, 0), 1), Fate::kLands) << "its mark was not set";
}

}  // namespace
}  // namespace lockstep::link
