// Which of several failures is named.
#include "nodes/cause.h"

#include <gtest/gtest.h>

namespace lockstep::nodes {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

Mishap mishap(int node, std::uint64_t at, bool is_evident = false, bool final = false) {
  return {at, node, "", 1, is_evident, final};
}

TEST(Cause, TheOldestWhoeverToldItFirst) {
  Cause cause;
  cause.open(500 * kMs);
  cause.add(mishap(1, 400 * kMs, true));
  cause.add(mishap(2, 300 * kMs));
  cause.add(mishap(0, 450 * kMs, true));
  EXPECT_EQ(cause.root(false)->node, 2);
}

TEST(Cause, OfEqualOnesAnEvidentOne) {
  Cause cause;
  cause.add(mishap(1, 400 * kMs));
  cause.add(mishap(2, 405 * kMs, true));
  cause.add(mishap(0, 403 * kMs, true));
  EXPECT_EQ(cause.root(false)->node, 0);
}

// Its clock may be slower than the leader's: the same failure seems younger or older with time.
TEST(Cause, OfANodeWhatIsToldFirst) {
  Cause cause;
  cause.add(mishap(1, 400 * kMs));
  cause.add(mishap(2, 450 * kMs));
  cause.add(mishap(2, 390 * kMs));
  EXPECT_EQ(cause.root(false)->node, 1);
  EXPECT_EQ(cause.root(false)->at, 400 * kMs);
}

TEST(Cause, OfFinalOnesAloneWhereOneEndsTheRun) {
  Cause cause;
  cause.add(mishap(1, 100 * kMs));
  EXPECT_FALSE(cause.is_final());
  EXPECT_EQ(cause.root(true), nullptr);
  cause.add(mishap(2, 300 * kMs, false, true));
  EXPECT_TRUE(cause.is_final());
  EXPECT_EQ(cause.root(true)->node, 2);
  EXPECT_EQ(cause.root(false)->node, 1);
  cause.clear();
  EXPECT_FALSE(cause.is_final());
  EXPECT_EQ(cause.root(false), nullptr);
}

}  // namespace
}  // namespace lockstep::nodes
