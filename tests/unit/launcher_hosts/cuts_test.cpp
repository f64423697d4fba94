// Who goes where links do not reach each other.
#include "launcher/hosts/cuts.h"

#include <gmock/gmock.h>

namespace lockstep::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Going = Cuts::Going;
using Gone = std::set<std::size_t>;

constexpr std::uint64_t kLimit = 1'000;

class CutsTest : public testing::Test {
 protected:
  CutsTest() {
    facts_.hosts.resize(4);
    for (std::size_t h = 0; h < 4; ++h) {
      facts_.hosts[h].stay = {static_cast<std::uint16_t>(h), 1};
      facts_.hosts[h].standing = coord::Standing::kHere;
      set_.members.push_back({static_cast<std::uint16_t>(h), h + 10});
    }
  }
  void say(coord::HostIndex host, const std::vector<coord::HostIndex>& others) {
    cuts_.hear(host, others, now_);
  }
  void cut(coord::HostIndex a, coord::HostIndex b) { say(a, {b}), say(b, {a}); }
  std::vector<Going> after(std::uint64_t time) {
    now_ += time;
    return cuts_.going(set_, {}, facts_, now_);
  }

  Cuts cuts_{kLimit};
  coord::RunFacts facts_;
  quorum::Set set_{.id = 1, .members = {}};
  std::uint64_t now_ = 5'000;
};

TEST_F(CutsTest, OfAPairTheHigherOnceBothHaveSaidSoForTheLimit) {
  say(1, {2});
  EXPECT_THAT(after(2 * kLimit), IsEmpty());
  say(2, {1});
  EXPECT_THAT(after(kLimit - 1), IsEmpty());
  EXPECT_THAT(after(1), ElementsAre(Going{2, 1}));
}

TEST_F(CutsTest, WhoHasReachedItAgainBeginsAnew) {
  cut(1, 2);
  EXPECT_THAT(after(kLimit - 1), IsEmpty());
  say(1, {});
  say(1, {2});
  EXPECT_THAT(after(kLimit - 1), IsEmpty());
  EXPECT_THAT(after(1), ElementsAre(Going{2, 1}));
}

TEST_F(CutsTest, WhileTheLeaderStandsStillNoTimePasses) {
  cut(1, 2);
  now_ += 5 * kLimit;
  cuts_.forget_pause(5 * kLimit, now_);
  EXPECT_THAT(after(kLimit - 1), IsEmpty());
  EXPECT_THAT(after(1), ElementsAre(Going{2, 1}));
}

TEST_F(CutsTest, WhatItHasHeardBehindThePauseIsAsYoungAsThat) {
  cut(1, 2);
  cuts_.forget_pause(kLimit, now_);  // which began before
  EXPECT_THAT(after(kLimit - 1), IsEmpty());
  EXPECT_THAT(after(1), ElementsAre(Going{2, 1}));
}

TEST_F(CutsTest, WhoSaysAnotherOneToo) {
  say(1, {2});
  say(3, {1});
  say(2, {1});
  now_ += kLimit - 1;
  say(1, {2, 3});
  EXPECT_THAT(after(1), ElementsAre(Going{2, 1}));  // the pair of 1 and 3 is too young to count
}

TEST_F(CutsTest, WhoReachesFewerGoes) {
  say(2, {1});
  say(1, {2});
  now_ += kLimit / 4;
  say(3, {1});
  say(1, {2, 3});
  EXPECT_THAT(after(3 * kLimit / 4), ElementsAre(Going{1, 2}));
}

TEST_F(CutsTest, TheFirstGoesWhereItReachesNobody) {
  say(0, {1, 2, 3});
  for (coord::HostIndex h = 1; h < 4; ++h) say(h, {0});
  EXPECT_THAT(after(kLimit), ElementsAre(Going{0, 1}));
}

TEST_F(CutsTest, OfTwoTheFirstStays) {
  set_.members.resize(2);
  cut(0, 1);
  EXPECT_THAT(after(kLimit), ElementsAre(Going{1, 0}));
}

TEST_F(CutsTest, OfTwoWithTheLockFileTheOneOfTheTableStays) {
  set_.members.resize(2);
  facts_.hosts[0].standing = coord::Standing::kGoing;
  cut(0, 1);
  now_ += kLimit;
  const quorum::Ties none{.by_file = true}, file{.by_file = true, .file = set_.id};
  EXPECT_THAT(cuts_.going(set_, none, facts_, now_), IsEmpty());
  EXPECT_THAT(cuts_.going(set_, file, facts_, now_), ElementsAre(Going{0, 1}));
}

TEST_F(CutsTest, OfEqualOnesThoseOfTheTableStay) {
  facts_.hosts[1].standing = coord::Standing::kGoing;
  cut(1, 2);
  EXPECT_THAT(after(kLimit), ElementsAre(Going{1, 2}));
}

TEST_F(CutsTest, WhoIsOutHasNoPairs) {
  cut(1, 2);
  set_.members.erase(set_.members.begin() + 2);
  EXPECT_THAT(after(kLimit), IsEmpty());
}

// Of three hosts one is dead, and a cut is between the others: both at once would be too many.
TEST(WhoGoes, WhoIsLostGoesBeforeWhoIsCutOff) {
  const auto fewer_than_two = [](const Gone& gone) { return gone.size() < 2; };
  EXPECT_EQ(who_goes({{2, "silent"}}, {{1, "a cut"}}, {}, fewer_than_two), (Why{{2, "silent"}}));
  const auto any = [](const Gone&) { return true; };
  EXPECT_EQ(who_goes({{2, "silent"}}, {{1, "a cut"}}, {2}, any).size(), 2U);
  EXPECT_TRUE(who_goes({{2, "silent"}}, {}, {2}, any).empty()) << "it is known";
}

// Of five two may go. One that is heard again after it was given up goes all the same.
TEST(WhoGoes, WhoWasGivenUpIsOneOfThem) {
  const auto two = [](const Gone& gone) { return gone.size() <= 2; };
  EXPECT_EQ(who_goes({{3, "silent"}}, {}, {1}, two), (Why{{3, "silent"}}));
  EXPECT_TRUE(who_goes({{3, "silent"}}, {}, {1, 2}, two).empty());
  EXPECT_EQ(who_goes({}, {{3, "a cut"}}, {1}, two), (Why{{3, "a cut"}}));
  EXPECT_TRUE(who_goes({}, {{3, "a cut"}}, {1, 2}, two).empty());
}

TEST_F(CutsTest, HostsThatThereAreNotGoNowhere) {
  cut(1, 900);
  EXPECT_THAT(after(kLimit), IsEmpty());
}

}  // namespace
}  // namespace lockstep::launcher
