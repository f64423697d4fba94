// Buckets of which a step has no sum, over both exchanges.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "conformance/cluster.h"

namespace lockstep::conformance {
namespace {

template <class Engine>
class LeftOutTest : public testing::Test {};
TYPED_TEST_SUITE(LeftOutTest, Engines, Names);

// As the updates of a GAN: each has sums of its own buckets, whoever dies.
TYPED_TEST(LeftOutTest, BucketsAreLeftOutInTurn) {
  for (const std::uint32_t v : {1U, 3U, 5U})
    for (const Death death : kDeaths)
      for (std::uint32_t victim = 0; victim < std::min(v, 3U); ++victim) {
        SCOPED_TRACE("V " + std::to_string(v) + ", death " +
                     std::to_string(static_cast<int>(death)) + " of " + std::to_string(victim));
        const std::uint32_t members = std::min(v, 3U);
        Cluster<TypeParam> cluster({awkward_plan(v), Values::kAdversarial, 2}, members);
        for (std::uint64_t t = 0; t < 6; ++t) cluster.step(table_of(Txn(t), members));
        if (members == 1) continue;
        cluster.step(table_of(Txn(6), members), {{victim, death}});
        for (std::uint64_t t = 7; t < 9; ++t) {
          coord::Table rest = table_of(Txn(t), members, 2);
          rest.members.erase(rest.members.begin() + victim);
          cluster.step(rest);
        }
      }
}

// A fast member has left out the next step's while a slow one still reads this one's.
TYPED_TEST(LeftOutTest, WhatIsLeftOutNextDoesNotTouchWhatWasSummed) {
  Cluster<TypeParam> cluster({awkward_plan(2), Values::kAdversarial, 2}, 2);
  cluster.step(table_of(Txn(0), 2));
  comm::Exchange& fast = *cluster.exchanges[1];
  ASSERT_TRUE(fast.begin(table_of(Txn(1), 2)).ok());
  leave_out(fast, cluster.work, Txn(1), cluster.work.plan.buckets.size());
  EXPECT_EQ(check_sums(*cluster.exchanges[0], cluster.work, Txn(0)), "");
}

// Nobody waits for a member that is in no later table: they may be far ahead.
TYPED_TEST(LeftOutTest, WhatNobodyKnowsAnyMoreIsNotGuessed) {
  Cluster<TypeParam> cluster({awkward_plan(2), Values::kAdversarial, 2}, 2);
  cluster.step(table_of(Txn(0), 2));
  EXPECT_EQ(cluster.exchanges[0]->left_out(1), true);
  comm::Exchange& fast = *cluster.exchanges[1];
  ASSERT_TRUE(fast.begin(table_of(Txn(coord::kGenerations), 2)).ok());
  fast.leave_out(1);
  EXPECT_EQ(cluster.exchanges[0]->left_out(0), false);
  EXPECT_EQ(cluster.exchanges[0]->left_out(1), std::nullopt);
}

// Two that leave out different ones would wait for each other for ever.
TYPED_TEST(LeftOutTest, AWaitLooksMeanwhileWhetherItMakesSense) {
  Cluster<TypeParam> cluster({awkward_plan(2), Values::kAdversarial, 2}, 2);
  comm::Exchange& waits = *cluster.exchanges[0];
  ASSERT_TRUE(waits.begin(table_of(Txn(0), 2)).ok());
  leave_out(waits, cluster.work, Txn(0), cluster.work.plan.buckets.size());
  std::atomic<bool> differs{false};
  std::thread other([&] {
    comm::Exchange& exchange = *cluster.exchanges[1];
    ASSERT_TRUE(exchange.begin(table_of(Txn(0), 2)).ok());
    differs = true;  // first: with their marks there all is whole
    leave_out(exchange, cluster.work, Txn(1), cluster.work.plan.buckets.size());
    exchange.ring_members();
  });
  const auto outcome =
      waits.wait([&] { return !differs; },
                 [&] {
                   return differs ? Status(Error{ErrorKind::kUsage, "they differ"}) : Status();
                 },
                 soon());
  other.join();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().message, "they differ");
}

}  // namespace
}  // namespace lockstep::conformance
