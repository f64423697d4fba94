// Which of several failures is named.
#include "nodes/cause.h"

#include <gtest/gtest.h>

#include "nodes_test.h"

namespace lockstep::nodes {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

NodeFailure failure(int node, std::uint64_t at, bool is_evident = false, bool final = false) {
  return {at, node, "", 1, is_evident, final};
}

TEST(Cause, TheOldestWhoeverToldItFirst) {
  Cause cause;
  cause.open(500 * kMs);
  cause.add(failure(1, 400 * kMs, true));
  cause.add(failure(2, 300 * kMs));
  cause.add(failure(0, 450 * kMs, true));
  EXPECT_EQ(cause.root(false)->node, 2);
}

TEST(Cause, OfEqualOnesAnEvidentOne) {
  Cause cause;
  cause.add(failure(1, 400 * kMs));
  cause.add(failure(2, 405 * kMs, true));
  cause.add(failure(0, 403 * kMs, true));
  EXPECT_EQ(cause.root(false)->node, 0);
}

// Its clock may be slower than the leader's: the same failure seems younger or older with time.
TEST(Cause, OfANodeWhatIsToldFirst) {
  Cause cause;
  cause.add(failure(1, 400 * kMs));
  cause.add(failure(2, 450 * kMs));
  cause.add(failure(2, 390 * kMs));
  EXPECT_EQ(cause.root(false)->node, 1);
  EXPECT_EQ(cause.root(false)->at, 400 * kMs);
}

TEST(Cause, OfFinalOnesAloneWhereOneEndsTheRun) {
  Cause cause;
  cause.add(failure(1, 100 * kMs));
  EXPECT_FALSE(cause.is_final());
  EXPECT_EQ(cause.root(true), nullptr);
  cause.add(failure(2, 300 * kMs, false, true));
  EXPECT_TRUE(cause.is_final());
  EXPECT_EQ(cause.root(true)->node, 2);
  EXPECT_EQ(cause.root(false)->node, 1);
  cause.clear();
  EXPECT_FALSE(cause.is_final());
  EXPECT_EQ(cause.root(false), nullptr);
}

// How long the leader waits for what is older than the failure that it has heard of.
class Settling : public NodesTest {
 protected:
  // Node 1 fails because node 2 has failed; node 0's workers take their time to be gone.
  void SetUp() override {
    begin({.nodes = 3});
    add(1, row(1, 101));
    add(2, row(2, 102));
    talk();
    nodes.at(1).workers_failed({0, 0, "lost a peer", 1, false}, now);
    leader->heard(1, nodes.at(1).word(now), now);
    told_at_ = now;
  }
  void at(std::uint64_t after_it) {
    now = told_at_ + after_it;
    leader->tick(now);
    leader->heard(1, nodes.at(1).word(now), now);
  }
  void break_connection() {
    cut.insert(2);
    leader->closed(2, now);
    nodes.at(2).closed(now);
  }
  void connect_again(Link link) {
    nodes.at(2).tick(now);
    leader->heard(link, nodes.at(2).word(now), now);
  }
  std::uint64_t told_at_ = 0;
};

TEST_F(Settling, ASecondWhereAllAreConnected) {
  at(999 * kMs);
  EXPECT_FALSE(leader->final());
  at(1000 * kMs);
  ASSERT_TRUE(leader->final());
  EXPECT_EQ(leader->final()->node, 1);
}

TEST_F(Settling, ALossThatIsKnownAfterTheSecondIsWaitedFor) {
  at(10 * kMs);
  break_connection();
  at(1009 * kMs);
  EXPECT_FALSE(leader->final()) << "its connection may be made again";
  at(1010 * kMs);
  ASSERT_TRUE(leader->final());
  EXPECT_EQ(leader->final()->node, 2) << "as old, and no consequence";
}

TEST_F(Settling, WhoComesBackWithinItsSecondIsStillAsked) {
  at(100 * kMs);
  nodes.at(2).workers_failed({0, 200 * kMs, "ran out of memory", 9, false}, now);
  at(900 * kMs);
  break_connection();
  at(1800 * kMs);
  EXPECT_FALSE(leader->final());
  connect_again(3);
  ASSERT_TRUE(leader->final());
  EXPECT_EQ(leader->final()->code, 9);
}

}  // namespace
}  // namespace lockstep::nodes
