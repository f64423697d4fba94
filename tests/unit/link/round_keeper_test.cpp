#include "link/round_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_board.h"
#include "link/host_rounds.h"
#include "link/messages.h"

namespace lockstep::link {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

class RoundKeeperTest : public testing::Test {
 protected:
  FakePlan plan_;
  RoundKeeper keeper_{plan_, 1, {kA, kB, kC}};

  Answer answer(HostIndex host, std::vector<Item> marked, std::vector<coord::Table> tables = {},
                std::vector<Stay> appended = {}) {
    std::ranges::sort(marked);
    return {.stamp = keeper_.round().stamp,
            .host = host,
            .have = {.lowest = 0, .marked = std::move(marked)},
            .other_tables = std::move(tables),
            .appended = std::move(appended)};
  }
  bool appended(HostIndex host) { return keeper_.hear(Appended{keeper_.round().stamp, host}); }
  Fills fills_for(HostIndex host) {
    for (const Fills& fills : keeper_.fills())
      if (fills.host == host) return fills;
    return {};
  }

  const coord::Table first_ = table_with(0, {kA, kB, kC});
};

TEST_F(RoundKeeperTest, TheDeadsItemsGoToWhoLacksThemFromTheLowestHolder) {
  keeper_.lose_host(kA);
  EXPECT_THAT(keeper_.round().set, ElementsAre(1, 2));
  EXPECT_THAT(keeper_.round().out, ElementsAre(kA));
  EXPECT_TRUE(keeper_.hear(answer(1, {table_of(0), record(0, 0), record(0, 1)}, {first_})));
  EXPECT_FALSE(keeper_.is_answered());
  EXPECT_TRUE(keeper_.hear(answer(2, {table_of(0), chunk(0, 0), record(0, 2)}, {first_})));
  ASSERT_TRUE(keeper_.is_answered());
  const Fills b = fills_for(1), c = fills_for(2);
  EXPECT_THAT(b.get, ElementsAre(chunk(0, 0))) << "record 2 is C's, and comes by itself";
  EXPECT_THAT(c.get, ElementsAre(record(0, 0)));
  EXPECT_THAT(b.send, ElementsAre(Fills::Send{2, record(0, 0)}));
  EXPECT_THAT(c.send, ElementsAre(Fills::Send{1, chunk(0, 0)}));
  EXPECT_THAT(b.order, ElementsAre(kA));
}

TEST_F(RoundKeeperTest, NobodySendsToAll) {
  std::vector<Stay> hosts;
  for (HostIndex h = 0; h < 41; ++h) hosts.push_back({h, 1});
  RoundKeeper many(plan_, 1, hosts);
  many.lose_host(hosts[0]);
  for (HostIndex h = 1; h < 41; ++h) {
    std::vector<Item> marked{table_of(0)};
    if (h % 2 == 0) marked.push_back(record(0, 0));
    (void)many.hear(Answer{.stamp = many.round().stamp,
                           .host = h,
                           .have = {.lowest = 0, .marked = marked},
                           .other_tables = {},
                           .appended = {}});
  }
  std::size_t got = 0;
  for (const Fills& fills : many.fills()) {
    EXPECT_LE(fills.send.size(), 1U) << fills.host;
    got += fills.get.size();
  }
  EXPECT_EQ(got, 20U);
}

TEST_F(RoundKeeperTest, TablesThatTheLeaderHasAreOnlyNamed) {
  FakeBoard board;
  board.put(first_).put(table_with(1, {kA, kB, kC}));
  keeper_.know(board);
  keeper_.lose_host(kA);
  EXPECT_EQ(keeper_.round().known.size(), 1U) << "they are the same but for the transaction";
  HostRounds rounds(kB, {0, 1, 2});
  ASSERT_TRUE(rounds.hear(keeper_.round()));
  const auto told = rounds.answer(board, plan_, keeper_.round().stamp);
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->has_table());
  EXPECT_THAT(told->other_tables, IsEmpty());
  EXPECT_EQ(told->known_tables.size(), 2U);
  Answer strange = *told;
  strange.known_tables[1].content ^= 1;
  EXPECT_FALSE(keeper_.hear(strange));
  keeper_.know(FakeBoard());  // of the next round
  EXPECT_TRUE(keeper_.hear(*told));
  ASSERT_EQ(keeper_.answers().at(1).other_tables.size(), 2U);
  EXPECT_EQ(keeper_.answers().at(1).other_tables[1].txn, Txn(1));
  Answer again = *told;
  again.host = 2;
  EXPECT_TRUE(keeper_.hear(again));
  EXPECT_THAT(keeper_.answers().at(2).other_tables, IsEmpty()) << "one is enough";
}

TEST_F(RoundKeeperTest, ANewcomerHoldsNothingFromBeforeItsStateAndNeedsNothing) {
  keeper_.lose_host(kC);
  Answer comer = answer(0, {table_of(1)}, {table_with(1, {kA, kB, kC})});
  comer.have.first = comer.have.lowest = 1;
  (void)keeper_.hear(comer);
  (void)keeper_.hear(answer(1, {table_of(0), record(0, 2)}, {first_}));
  EXPECT_THAT(fills_for(0).get, IsEmpty());
  EXPECT_THAT(fills_for(0).send, Not(Contains(testing::Field(&Fills::Send::item, chunk(0, 2)))));
  EXPECT_THAT(fills_for(1).get, IsEmpty());
}

TEST_F(RoundKeeperTest, WithoutATableEverythingIsFilled) {
  keeper_.lose_host(kA);
  (void)keeper_.hear(answer(1, {table_of(0), record(1, 1)}, {first_}));
  (void)keeper_.hear(answer(2, {table_of(0), record(1, 2)}, {first_}));
  EXPECT_THAT(fills_for(1).get, ElementsAre(record(1, 2)));
  EXPECT_THAT(fills_for(2).get, ElementsAre(record(1, 1)));
}

TEST_F(RoundKeeperTest, OwnersAreFoundByWhatAllBoardsHaveAppended) {
  keeper_.lose_host(kA);
  keeper_.lose_host(kC);  // B has appended A meanwhile
  (void)keeper_.hear(answer(1, {table_of(0)}, {first_}, {kA}));
  EXPECT_THAT(fills_for(1).order, ElementsAre(kA, kC));
}

TEST_F(RoundKeeperTest, TheOrderIsThatOfTheBoardThatHasAppended) {
  keeper_.lose_workers(kC);
  keeper_.lose_workers(kA);
  (void)keeper_.hear(answer(0, {table_of(0)}, {first_}));
  (void)keeper_.hear(answer(1, {table_of(0)}, {first_}, {kC}));
  (void)keeper_.hear(answer(2, {table_of(0)}, {first_}));
  EXPECT_THAT(fills_for(0).order, ElementsAre(kC, kA));
}

TEST_F(RoundKeeperTest, WhoIsOutOfTheTableAnswersAndFillsAndGetsNothing) {
  keeper_.lose_workers(kA);
  EXPECT_THAT(keeper_.round().set, ElementsAre(0, 1, 2));
  EXPECT_THAT(keeper_.round().table, ElementsAre(kB, kC));
  (void)keeper_.hear(answer(0, {table_of(0), record(0, 0)}, {first_}));
  (void)keeper_.hear(answer(1, {table_of(0), chunk(0, 0)}, {first_}));
  (void)keeper_.hear(answer(2, {table_of(0), chunk(0, 0)}, {first_}));
  EXPECT_THAT(fills_for(0).get, IsEmpty());
  EXPECT_THAT(fills_for(0).send,
              UnorderedElementsAre(Fills::Send{1, record(0, 0)}, Fills::Send{2, record(0, 0)}));
}

TEST_F(RoundKeeperTest, TakenOutOnceAllHaveAppended) {
  keeper_.lose_host(kA);
  const Stamp old = keeper_.round().stamp;
  EXPECT_TRUE(appended(1));
  keeper_.lose_workers(kC);
  EXPECT_THAT(keeper_.round().out, ElementsAre(kA, kC)) << "one has not appended A";
  EXPECT_FALSE(keeper_.hear(Appended{old, 2}));
  EXPECT_TRUE(appended(1));
  EXPECT_FALSE(appended(0)) << "outside the set";
  EXPECT_TRUE(appended(2));
  EXPECT_THAT(keeper_.round().out, IsEmpty());
}

TEST_F(RoundKeeperTest, AHostComesBackAsANewStayInARoundOfItsOwn) {
  keeper_.lose_host(kA);
  EXPECT_TRUE(appended(1));
  EXPECT_TRUE(appended(2));
  const Stay again{kA.host, 2};
  keeper_.join(again);
  EXPECT_THAT(keeper_.round().set, UnorderedElementsAre(0, 1, 2));
  EXPECT_THAT(keeper_.round().table, UnorderedElementsAre(again, kB, kC));
  EXPECT_THAT(keeper_.round().out, IsEmpty());
  // A board without a state has appended nobody, and owns nothing.
  Answer fresh = answer(0, {}, {});
  fresh.have.first = kNever;
  (void)keeper_.hear(fresh);
  (void)keeper_.hear(answer(1, {table_of(0)}, {first_}, {kA}));
  (void)keeper_.hear(answer(2, {table_of(0)}, {first_}, {kA}));
  EXPECT_TRUE(keeper_.is_answered());
  EXPECT_THAT(appended_by_all(keeper_.answers()), ElementsAre(kA));
  EXPECT_THAT(fills_for(0).order, ElementsAre(kA));
  const RoundKeeper next(plan_, 2, {kA, kB, kC}, {keeper_.round()});
  EXPECT_THAT(next.round().table, UnorderedElementsAre(again, kB, kC));
}

TEST_F(RoundKeeperTest, ANewLeaderNamesWhatTheNewestFactsName) {
  const Round older{.stamp = {1, 1}, .set = {0, 1}, .out = {kC}, .table = {kA, kB}};
  const Round newest{.stamp = {2, 1}, .set = {0, 1, 2}, .out = {kB}, .table = {kA, kC}};
  const RoundKeeper next(plan_, 3, {kA, kB, kC}, {older, newest});
  EXPECT_EQ(next.round().stamp, (Stamp{3, 1}));
  EXPECT_THAT(next.round().set, ElementsAre(0, 1, 2));
  EXPECT_THAT(next.round().out, ElementsAre(kB));
  EXPECT_THAT(next.round().table, ElementsAre(kA, kC));
  const RoundKeeper without(plan_, 2, {kA, kB, kC}, {Round{}});
  EXPECT_THAT(without.round().out, IsEmpty());
  EXPECT_THAT(without.round().set, ElementsAre(0, 1, 2));
}

// It would be gone through transaction by transaction.
TEST_F(RoundKeeperTest, AHostThatIsFarBehindCostsNoMoreThanOthers) {
  keeper_.lose_host(kA);
  Answer left_long_ago = answer(1, {}), ahead = answer(2, {table_of(kMaxTxn), record(kMaxTxn, 0)});
  ahead.have.lowest = kMaxTxn;
  (void)keeper_.hear(left_long_ago);
  (void)keeper_.hear(ahead);
  ASSERT_TRUE(keeper_.is_answered());
  EXPECT_LE(fills_for(1).get.size(), 60U) << "of what boards still have";
  EXPECT_THAT(fills_for(1).get, Contains(record(kMaxTxn, 0)));
}

}  // namespace
}  // namespace lockstep::link
