#include "coord/next_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::coord {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Stay kFirst{0, 1}, kSecond{1, 1};

Member member(Stay stay, std::uint32_t number) { return {uid_of(stay, number), Slot(number)}; }

const Member kA = member(kFirst, 1), kB = member(kFirst, 2), kC = member(kSecond, 1),
             kNew = member(kFirst, 3), kLate = member(kSecond, 2);

// Of two hosts; the wish has a newcomer on each, and goes by a newer generation.
struct Case {
  Table today{.txn = Txn(4),
              .generation = Generation(7),
              .members = {kA, kB, kC},
              .hosts = {{kFirst, 2}, {kSecond, 1}}};
  Table wish{.txn = Txn(0),
             .generation = Generation(8),
             .members = {kA, kB, kNew, kC, kLate},
             .hosts = {{kFirst, 3}, {kSecond, 2}}};
  std::vector<WorkerUid> dead = {};
  std::vector<Member> ready = {};
  bool begins_step = true;
  Table next() const {
    return next_table({.today = today,
                       .wish = wish,
                       .dead = dead,
                       .ready = ready,
                       .begins_step = begins_step,
                       .last_step = 3});
  }
};

TEST(NextTable, ListsOfNewcomersThoseThatAreReady) {
  Case one;
  one.ready = {kNew};
  EXPECT_THAT(joiners(one.today, one.wish, one.dead), ElementsAre(kNew, kLate));
  const Table next = one.next();
  EXPECT_EQ(next.txn, Txn(5));
  EXPECT_EQ(next.generation, Generation(8));
  EXPECT_THAT(next.members, ElementsAre(kA, kB, kNew, kC));
  EXPECT_EQ(next.hosts, one.wish.hosts);
}

TEST(NextTable, DropsTheDeadAndHostsOfWhichNobodyIsLeft) {
  Case one;
  one.ready = {kNew};
  one.dead = {kA.uid, kNew.uid, kC.uid};
  EXPECT_THAT(joiners(one.today, one.wish, one.dead), ElementsAre(kLate));
  EXPECT_THAT(one.next().members, ElementsAre(kB));
  EXPECT_THAT(one.next().hosts, ElementsAre(Host{kFirst, 3}));
  one.dead = {death_of(kFirst)};
  EXPECT_THAT(one.next().members, ElementsAre(kC));
}

TEST(NextTable, SaysThatSharesHaveMovedFromThenOn) {
  Case one;
  EXPECT_EQ(one.next().flags, kNone);
  one.today.flags = kMoved;
  EXPECT_EQ(one.next().flags, kMoved);
  one.begins_step = false;
  EXPECT_EQ(one.next().flags, kMoved);
  for (const bool comes : {true, false}) {
    Case other;
    if (comes) other.ready = {kNew};
    if (!comes) other.dead = {kB.uid};
    EXPECT_EQ(other.next().flags, kMoved);
  }
}

TEST(NextTable, WithinAStepIsTodaysLessTheDead) {
  Case one;
  one.ready = {kNew};
  one.dead = {kB.uid};
  one.wish.flags = kStop;
  one.begins_step = false;
  EXPECT_THAT(one.next().members, ElementsAre(kA, kC));
  EXPECT_EQ(one.next().generation, Generation(7));
  EXPECT_EQ(one.next().flags, kMoved);
}

// It is on its way here from the board of whoever published today's.
TEST(NextTable, AProposalOlderThanTodaysTableIsNotGoneBackTo) {
  Case one;
  one.ready = {kNew};
  one.wish.generation = Generation(6);
  EXPECT_THAT(one.next().members, ElementsAre(kA, kB, kC));
}

TEST(NextTable, WhereAllLeaveAtOnceTheyGoOn) {
  Case one;
  one.wish.members = {kNew};
  one.wish.hosts = {{kFirst, 1}};
  EXPECT_EQ(one.next().members, one.today.members);
  EXPECT_EQ(one.next().hosts, one.today.hosts);
  one.dead = {kB.uid};
  EXPECT_THAT(one.next().members, ElementsAre(kA, kC)) << "its slot will be another one's";
}

TEST(NextTable, ATimeThatIsUpNamesTheLastStepOnce) {
  Case one;
  EXPECT_EQ(one.next().stop_after_step, 0U);
  one.wish.flags = kTimeIsUp | kStop;
  EXPECT_EQ(one.next().stop_after_step, 3U);
  EXPECT_EQ(one.next().flags, kStop);
  one.today.stop_after_step = 2;
  EXPECT_EQ(one.next().stop_after_step, 2U);
  one.wish.flags = kNone;
  EXPECT_EQ(one.next().stop_after_step, 2U);
}

TEST(NextTable, NobodyJoinsWhoseWishIsGone) {
  Case one;
  one.ready = {kNew, kLate};
  one.wish = one.today;
  EXPECT_THAT(joiners(one.today, one.wish, one.dead), IsEmpty());
  EXPECT_EQ(one.next().members, one.today.members);
}

}  // namespace
}  // namespace lockstep::coord
