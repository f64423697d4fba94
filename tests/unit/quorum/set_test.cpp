#include "quorum/set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quorum/facts.h"
#include "unit/quorum/members.h"

namespace lockstep::quorum {
namespace {

using testing::ElementsAre;

constexpr Member kReturned{0, 2};

Set set_of(std::vector<Member> members, std::uint64_t id = 7) {
  return {.id = id, .members = std::move(members)};
}

TEST(Set, AQuorumIsMoreThanHalfOrHalfWithTheFirst) {
  const Set four = set_of({kA, kB, kC, kD});
  EXPECT_TRUE(is_quorum(four, {kB, kC, kD}, {}));
  EXPECT_TRUE(is_quorum(four, {kA, kD}, {}));
  EXPECT_FALSE(is_quorum(four, {kB, kC}, {}));
  EXPECT_FALSE(is_quorum(four, {kReturned, kB}, {}));  // another incarnation
  EXPECT_FALSE(is_quorum({}, {kA}, {}));
}

TEST(Set, OfTwoWithALockFileWhoeverHasItIsAQuorum) {
  const Set two = set_of({kA, kB});
  EXPECT_TRUE(is_quorum(two, {kA}, {}));
  EXPECT_FALSE(is_quorum(two, {kA}, {.by_file = true, .file = 0}));
  EXPECT_FALSE(is_quorum(two, {kB}, {.by_file = true, .file = 6}));
  EXPECT_TRUE(is_quorum(two, {kB}, {.by_file = true, .file = 7}));
  EXPECT_TRUE(is_quorum(two, {kA, kB}, {.by_file = true, .file = 0}));
}

TEST(Set, WhoHasBeenInLongestIsFirst) {
  const Set next = changed(set_of({kC, kB}), {kReturned, kB, kC, kD}, 8);
  EXPECT_EQ(next.id, 8U);
  EXPECT_THAT(next.members, ElementsAre(kC, kB, kReturned, kD));
}

TEST(Facts, WithASetInForceAreNewerThanAnyWithout) {
  const Facts in_force{.stamp = {1, 3}, .set = set_of({kA})};
  const Facts first{.stamp = {2, 0}, .change = set_of({kA, kB})};
  EXPECT_TRUE(is_newer(in_force, first));
  EXPECT_FALSE(is_newer(first, in_force));
}

TEST(Facts, WhatIsInForceIsSoForEver) {
  Facts older{.stamp = {1, 1}, .set = set_of({kA, kB, kC}), .change = set_of({kA, kB}, 8)};
  older.changes = 1;
  const Facts known{.stamp = {0, 4}, .set = set_of({kA, kB}, 8), .changes = 2};
  EXPECT_TRUE(settle(older, known));
  EXPECT_EQ(older.set, known.set);
  EXPECT_FALSE(older.change);
  EXPECT_EQ(older.changes, 2U);
  EXPECT_EQ(older.stamp, (Stamp{1, 1}));
  EXPECT_FALSE(settle(older, known));
}

}  // namespace
}  // namespace lockstep::quorum
