#include "link/host_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_board.h"

namespace lockstep::link {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Round round_of(std::uint64_t seq, std::vector<HostIndex> set, std::vector<Stay> out,
               std::uint64_t term = 1) {
  return {.stamp = {term, seq}, .set = std::move(set), .out = std::move(out), .table = {}};
}

class HostRoundsTest : public testing::Test {
 protected:
  HostRoundsTest() { board_.put(table_with(0, {kA, kB, kC})).put(record(0, 1)); }

  Fills fills_of(std::uint64_t seq, std::vector<Stay> order, std::vector<Item> get = {}) {
    return {
        .stamp = {1, seq}, .host = 1, .order = std::move(order), .get = std::move(get), .send = {}};
  }

  FakePlan plan_;
  FakeBoard board_;
  HostRounds rounds_{kB, {0, 1, 2}};
};

TEST_F(HostRoundsTest, AnswersOnceItsLinkHasClosedThePairs) {
  EXPECT_FALSE(rounds_.answer(board_, plan_, {})) << "there is no round";
  ASSERT_TRUE(rounds_.hear(round_of(1, {1, 2}, {kA})));
  EXPECT_THAT(rounds_.orders().closed, ElementsAre(0));
  EXPECT_FALSE(rounds_.answer(board_, plan_, {}));
  board_.append(coord::uid_of(kB, 9)).append(coord::death_of(kC));
  const auto answer = rounds_.answer(board_, plan_, {1, 1});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->host, 1);
  EXPECT_TRUE(answer->have.has(record(0, 1)));
  EXPECT_FALSE(answer->have.has(record(0, 0)));
  EXPECT_EQ(answer->other_tables.size(), 1U);
  EXPECT_THAT(answer->appended, ElementsAre(kC)) << "hosts alone";
  EXPECT_FALSE(rounds_.answer(board_, plan_, {1, 1})) << "once";
}

TEST_F(HostRoundsTest, AppendsOnceItHasItsFills) {
  (void)rounds_.hear(round_of(1, {1, 2}, {kA}));
  EXPECT_FALSE(rounds_.append(board_));
  ASSERT_TRUE(rounds_.hear(fills_of(1, {kA}, {record(0, 0)})));
  EXPECT_FALSE(rounds_.append(board_));
  board_.put(record(0, 0));
  const auto append = rounds_.append(board_);
  ASSERT_TRUE(append);
  EXPECT_THAT(append->hosts, ElementsAre(kA));
  EXPECT_EQ(append->told.stamp, (Stamp{1, 1}));
  EXPECT_FALSE(rounds_.append(board_)) << "once";
}

TEST_F(HostRoundsTest, ANewcomerThatHasBegunLaterDoesNotWaitForWhatLiesBefore) {
  (void)rounds_.hear(round_of(1, {1, 2}, {kA}));
  ASSERT_TRUE(rounds_.hear(fills_of(1, {kA}, {record(0, 0), record(1, 0)})));
  board_.begin = board_.lowest = 1;
  EXPECT_FALSE(rounds_.append(board_));
  board_.put(record(1, 0));
  EXPECT_TRUE(rounds_.append(board_));
}

TEST_F(HostRoundsTest, ANewcomerWithoutAStateTellsWhatItsBoardHas) {
  board_.put(table_with(6, {kA, kB, kC})).put(record(6, 1));
  board_.begin = kNever;
  (void)rounds_.hear(round_of(1, {1, 2}, {kA}));
  const auto answer = rounds_.answer(board_, plan_, {1, 1});
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->have.has(record(6, 1)));
  EXPECT_FALSE(answer->have.lacks(record(6, 0)));
}

TEST_F(HostRoundsTest, WhatItHasAppendedIsNotAppendedAgain) {
  board_.append(coord::death_of(kC));
  (void)rounds_.hear(round_of(2, {1}, {kA, kC}));
  (void)rounds_.hear(fills_of(2, {kC, kA}));
  EXPECT_THAT(rounds_.append(board_)->hosts, ElementsAre(kA));
}

TEST_F(HostRoundsTest, NothingCountsUnderAnOlderRound) {
  (void)rounds_.hear(round_of(1, {1, 2}, {kA}));
  (void)rounds_.hear(fills_of(1, {kA}));
  (void)rounds_.hear(round_of(2, {1}, {kA, kC}));
  EXPECT_FALSE(rounds_.append(board_));
  EXPECT_THAT(rounds_.orders().fills, IsEmpty());
  EXPECT_FALSE(rounds_.hear(fills_of(1, {kA})));
  EXPECT_FALSE(rounds_.hear(round_of(1, {1, 2}, {kA})));
  EXPECT_TRUE(rounds_.hear(fills_of(2, {kA, kC})));
  EXPECT_TRUE(rounds_.append(board_));
}

TEST_F(HostRoundsTest, ATermThatItHasPromisedMakesOlderOnesCountNoMore) {
  (void)rounds_.hear(round_of(1, {1, 2}, {kA}));
  EXPECT_EQ(rounds_.vote(2).stamp, (Stamp{1, 1}));
  EXPECT_FALSE(rounds_.hear(fills_of(1, {kA})));
  EXPECT_FALSE(rounds_.hear(round_of(2, {1}, {kA, kC})));
  EXPECT_TRUE(rounds_.hear(round_of(1, {1, 2}, {kA}, 2)));
}

TEST_F(HostRoundsTest, WhoHasLostItsPlaceInTheTableHasItsPairsAgainForFills) {
  (void)rounds_.hear(round_of(1, {0, 1, 2}, {kA}));
  EXPECT_THAT(rounds_.orders().closed, ElementsAre(0));
  (void)rounds_.hear(fills_of(1, {kA}));
  EXPECT_THAT(rounds_.orders().closed, IsEmpty());

  HostRounds own(kA, {0, 1, 2});
  (void)own.hear(round_of(1, {0, 1, 2}, {kA}));
  EXPECT_THAT(own.orders().closed, ElementsAre(1, 2));
}

TEST_F(HostRoundsTest, AHostOutsideTheSetStaysClosed) {
  (void)rounds_.hear(round_of(1, {1, 2}, {kA}));
  (void)rounds_.hear(fills_of(1, {kA}));
  EXPECT_THAT(rounds_.orders().closed, ElementsAre(0));
  (void)rounds_.hear(round_of(2, {1, 2}, {kC}));
  EXPECT_THAT(rounds_.orders().closed, ElementsAre(0, 2));
}

TEST_F(HostRoundsTest, ADroppedRoundOpensItsPairs) {
  (void)rounds_.hear(round_of(1, {1, 2}, {kA}));
  (void)rounds_.hear(round_of(1, {0, 1, 2}, {}, 2));
  EXPECT_THAT(rounds_.orders().closed, IsEmpty());
}

}  // namespace
}  // namespace lockstep::link
