#include "quorum/keep.h"

#include <gtest/gtest.h>

#include "unit/quorum/members.h"

namespace lockstep::quorum {
namespace {

const Set kFour{.id = 1, .members = {kA, kB, kC, kD}};
const Members kAll{kA, kB, kC, kD};

TEST(ToKeep, AllWherePairsWork) { EXPECT_EQ(to_keep(kFour, {}, kAll, {}), kAll); }

TEST(ToKeep, WhoeverIsCutFromAllGoes) {
  EXPECT_EQ(to_keep(kFour, {{kA, kB}, {kC, kB}, {kB, kD}}, kAll, {}), (Members{kA, kC, kD}));
}

TEST(ToKeep, OfEqualOnesThatWithMoreOfTheTableThenTheLower) {
  EXPECT_EQ(to_keep(kFour, {{kB, kC}}, kAll, {}), (Members{kA, kB, kD}));
  EXPECT_EQ(to_keep(kFour, {{kB, kC}}, {kA, kC, kD}, {}), (Members{kA, kC, kD}));
}

TEST(ToKeep, OfHalvesThatWithTheFirst) {
  const std::vector<std::pair<Member, Member>> halves{{kA, kC}, {kA, kD}, {kB, kC}, {kB, kD}};
  EXPECT_EQ(to_keep(kFour, halves, {kC, kD}, {}), (Members{kA, kB}));
}

TEST(ToKeep, NobodyWithoutAQuorum) {
  EXPECT_TRUE(to_keep(kFour, {{kA, kB}, {kA, kC}, {kA, kD}, {kB, kC}, {kB, kD}, {kC, kD}}, kAll, {})
                  .empty());
}

TEST(ToKeep, WhoeverMustStayDoes) {
  const Cut cut{{kA, kB}, {kC, kB}, {kB, kD}, {kC, kD}};
  EXPECT_EQ(to_keep(kAll, cut, {}, [](const Members& left) { return left.contains(kB); }),
            (Members{kB}));
  EXPECT_EQ(to_keep(kAll, cut, {}, [](const Members& left) { return left.contains(kD); }),
            (Members{kA, kD}));
}

TEST(ToKeep, EndsWithHundredsOfHostsInHalves) {
  Set many{.id = 1, .members = {}};
  std::vector<std::pair<Member, Member>> cut;
  for (std::uint16_t h = 0; h < 200; ++h) many.members.push_back({h, 1});
  for (std::uint16_t a = 0; a < 90; ++a)
    for (std::uint16_t b = 90; b < 200; ++b) cut.emplace_back(Member{a, 1}, Member{b, 1});
  const Members kept = to_keep(many, cut, {}, {});
  EXPECT_EQ(kept.size(), 110U);
  EXPECT_FALSE(kept.contains({0, 1}));
}

}  // namespace
}  // namespace lockstep::quorum
