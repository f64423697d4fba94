// One suite over both exchanges. Members are threads; a death is a thread that has stopped at some
// point of a step and is then announced, as the agent would.
#include "comm/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "conformance/cluster.h"

namespace lockstep::conformance {
namespace {

template <class Engine>
class ExchangeTest : public testing::Test {};
TYPED_TEST_SUITE(ExchangeTest, Engines, Names);

TYPED_TEST(ExchangeTest, AnyMembersGiveTheBitsOfTheNaiveTree) {
  for (std::uint32_t v = 1; v <= 8; ++v)
    for (std::uint32_t w = 1; w <= v; ++w) {
      SCOPED_TRACE("V " + std::to_string(v) + ", W " + std::to_string(w));
      Cluster<TypeParam> cluster({awkward_plan(v), Values::kAdversarial}, w);
      for (std::uint64_t t = 0; t < 3; ++t) cluster.step(table_of(Txn(t), w));
    }
}

TYPED_TEST(ExchangeTest, SumsOfIntegersHaveTheirClosedForm) {
  comm::ExchangePlan plan = awkward_plan(8);
  plan.scale = 1.0F;
  Cluster<TypeParam> cluster({plan, Values::kIntegers}, 3);
  cluster.step(table_of(Txn(0), 3));
  for (std::uint32_t b = 0; b < plan.buckets.size(); ++b)
    for (std::uint64_t i = 0; i < plan.buckets[b].count; ++i) {
      const std::size_t size = comm::size_of(plan.buckets[b].dtype);
      const std::uint64_t expected =
          from_double(plan.buckets[b].dtype, 36.0 * static_cast<double>(i % 7 + 1));
      ASSERT_EQ(std::memcmp(cluster.exchanges[1]->sum(b).data() + i * size, &expected, size), 0);
    }
}

TYPED_TEST(ExchangeTest, SixtyFourMegabytes) {
  comm::ExchangePlan plan;
  plan.virtual_workers = 3;
  plan.buckets = {{DType::kFloat32, 16 << 20}};
  Cluster<TypeParam> cluster({plan, Values::kIntegers}, 3);
  std::vector<std::thread> threads;
  for (std::uint32_t m = 0; m < 3; ++m)
    threads.emplace_back([&, m] {
      comm::Exchange& exchange = *cluster.exchanges[m];
      ASSERT_TRUE(exchange.begin(table_of(Txn(0), 3)).ok());
      exchange.prefault(true);
      auto* floats = reinterpret_cast<float*>(exchange.piece(m, 0).data());
      for (std::uint64_t i = 0; i < plan.buckets[0].count; ++i)
        floats[i] = static_cast<float>((m + 1) * (i % 1009));
      exchange.publish(exchange.ownership().pieces()[m].node, 0);
      const auto outcome = exchange.wait([] { return true; }, soon());
      ASSERT_TRUE(outcome.ok()) << outcome.error().message;
      const auto* sum = reinterpret_cast<const float*>(exchange.sum(0).data());
      std::uint64_t wrong = 0;
      for (std::uint64_t i = 0; i < plan.buckets[0].count; ++i)
        wrong += sum[i] != static_cast<float>(6 * (i % 1009)) ? 1 : 0;
      EXPECT_EQ(wrong, 0U);
    });
  for (std::thread& thread : threads) thread.join();
}

TYPED_TEST(ExchangeTest, AMemberDiesInEachPhaseAndTheBitsStay) {
  for (const std::uint32_t v : {3U, 5U, 8U})
    for (const Death death : kDeaths)
      for (std::uint32_t victim = 0; victim < 3; ++victim) {
        SCOPED_TRACE("V " + std::to_string(v) + ", death " +
                     std::to_string(static_cast<int>(death)) + " of " + std::to_string(victim));
        Cluster<TypeParam> cluster({awkward_plan(v), Values::kAdversarial}, 3);
        cluster.step(table_of(Txn(0), 3));
        cluster.step(table_of(Txn(1), 3), {{victim, death}});
        coord::Table rest = table_of(Txn(2), 3, 2);
        rest.members.erase(rest.members.begin() + victim);
        cluster.step(rest);
      }
}

TYPED_TEST(ExchangeTest, TwoDieInOneStep) {
  for (const Death first : kDeaths)
    for (const Death second : kDeaths) {
      SCOPED_TRACE(std::to_string(static_cast<int>(first)) + " and " +
                   std::to_string(static_cast<int>(second)));
      Cluster<TypeParam> cluster({awkward_plan(7), Values::kAdversarial}, 4);
      cluster.step(table_of(Txn(0), 4), {{1, first}, {2, second}});
      coord::Table rest = table_of(Txn(1), 4, 2);
      rest.members.erase(rest.members.begin() + 1, rest.members.begin() + 3);
      cluster.step(rest);
    }
}

TYPED_TEST(ExchangeTest, AllButOneDie) {
  Cluster<TypeParam> cluster({awkward_plan(8), Values::kAdversarial}, 4);
  cluster.step(
      table_of(Txn(0), 4),
      {{0, Death::kAfterSomePublished}, {3, Death::kBeforeBegin}, {1, Death::kAfterAllPublished}});
}

TYPED_TEST(ExchangeTest, AnHeirDiesToo) {
  // Member 1 inherits leaf 0 and dies before it has published that.
  Cluster<TypeParam> cluster({awkward_plan(4), Values::kAdversarial}, 4);
  cluster.step(table_of(Txn(0), 4), {{0, Death::kBeforeBegin}, {1, Death::kAfterAllPublished}});
}

TYPED_TEST(ExchangeTest, ANewcomerTakesTheSumAndThenAShare) {
  Cluster<TypeParam> cluster({awkward_plan(5), Values::kAdversarial}, 3);
  coord::Table old_table = table_of(Txn(0), 3);
  old_table.members.pop_back();
  cluster.engine.propose(table_of(Txn(0), 3));
  comm::Exchange& newcomer = *cluster.exchanges[2];
  newcomer.prefault(true);
  std::thread joins([&] {
    ASSERT_TRUE(newcomer.begin(old_table).ok());
    EXPECT_EQ(newcomer.self(), 2U);
    const auto outcome = newcomer.wait([] { return true; }, soon());
    ASSERT_TRUE(outcome.ok()) << outcome.error().message;
    EXPECT_EQ(*outcome, comm::Wait::kWhole);
    EXPECT_EQ(check_sums(newcomer, cluster.work, Txn(0)), "");
  });
  cluster.step(old_table);
  joins.join();
  cluster.step(table_of(Txn(1), 3, 2));
}

TYPED_TEST(ExchangeTest, AnEvaluationHasNoSumsWhateverItsSize) {
  comm::ExchangePlan plan = awkward_plan(4);
  plan.eval_items = 9;
  for (const std::uint32_t items : {0U, 2U, 4U, 9U}) {
    Cluster<TypeParam> cluster({plan, Values::kAdversarial}, 3);
    cluster.step(table_of(Txn(0), 3));
    const coord::Table table = table_of(Txn(1), 3);
    std::vector<std::thread> threads;
    for (std::uint32_t m = 0; m < 3; ++m)
      threads.emplace_back([&, m] {
        comm::Exchange& exchange = *cluster.exchanges[m];
        ASSERT_TRUE(exchange.begin_evaluation(table, items).ok());
        for (const std::uint32_t item : exchange.ownership().items_of(m)) {
          exchange.eval(item).loss_sum = 0.5 * item;
          exchange.eval(item).count = item + 1;
          exchange.eval(item).mark.store(table.txn.value() + 1);
        }
        exchange.ring_members();
        const auto all_there = [&] {
          for (std::uint32_t i = 0; i < items; ++i)
            if (exchange.eval(i).mark.load() != table.txn.value() + 1) return false;
          return true;
        };
        const auto outcome = exchange.wait(all_there, soon());
        ASSERT_TRUE(outcome.ok()) << outcome.error().message;
        for (std::uint32_t i = 0; i < items; ++i) EXPECT_EQ(exchange.eval(i).count, i + 1);
      });
    for (std::thread& thread : threads) thread.join();
    cluster.step(table_of(Txn(2), 3));
  }
}

// A member that is slow to read an evaluation finds it whole while others are at the next one.
TYPED_TEST(ExchangeTest, AnEvaluationIsNotWrittenOverByTheNext) {
  comm::ExchangePlan plan = awkward_plan(2);
  plan.eval_items = 1;
  Cluster<TypeParam> cluster({plan, Values::kAdversarial}, 2);
  comm::Exchange& slow = *cluster.exchanges[0];
  comm::Exchange& fast = *cluster.exchanges[1];
  ASSERT_TRUE(slow.begin_evaluation(table_of(Txn(0), 2), 1).ok());
  slow.eval(0).loss_sum = 0.5;
  for (std::uint64_t t = 1; t < 4; ++t) {
    ASSERT_TRUE(fast.begin_evaluation(table_of(Txn(t), 2), 1).ok());
    fast.eval(0).loss_sum = static_cast<double>(t);
  }
  EXPECT_EQ(slow.eval(0).loss_sum, 0.5);
}

TYPED_TEST(ExchangeTest, BuffersTravelWithTheStep) {
  comm::ExchangePlan plan = awkward_plan(3);
  plan.buffer_bytes = 100;
  plan.state_bytes = 5000;
  Cluster<TypeParam> cluster({plan, Values::kAdversarial}, 2);
  comm::Exchange& writer = *cluster.exchanges[0];
  comm::Exchange& reader = *cluster.exchanges[1];
  for (std::uint64_t t = 0; t < 3; ++t) {
    ASSERT_TRUE(writer.begin(table_of(Txn(t), 2)).ok());
    ASSERT_TRUE(reader.begin(table_of(Txn(t), 2)).ok());
    EXPECT_FALSE(reader.buffers_published());
    const std::span<const std::byte> before = reader.buffers();
    ASSERT_EQ(writer.buffers().size(), 100U);
    std::memset(writer.buffers().data(), static_cast<int>(t + 1), 100);
    writer.publish_buffers();
    EXPECT_TRUE(reader.buffers_published());
    EXPECT_EQ(reader.buffers()[99], std::byte(t + 1));
    EXPECT_EQ(before[99], std::byte(t + 1));
  }
  ASSERT_EQ(writer.heal_region().size(), 5000U);
  writer.heal_region()[4999] = std::byte{7};
  writer.heal_mark().store(3);
  EXPECT_EQ(reader.heal_mark().load(), 3U);
  EXPECT_EQ(reader.heal_region()[4999], std::byte{7});
}

// Four generations: one that is three behind still reads its own.
TYPED_TEST(ExchangeTest, RowsTravelWithTheStep) {
  comm::ExchangePlan plan = awkward_plan(3);
  plan.row_bytes = 100;
  plan.buffer_bytes = 100;
  Cluster<TypeParam> cluster({plan, Values::kAdversarial}, 2);
  comm::Exchange& writer = *cluster.exchanges[0];
  comm::Exchange& reader = *cluster.exchanges[1];
  ASSERT_TRUE(reader.begin(table_of(Txn(0), 2)).ok());
  for (std::uint64_t t = 0; t < 4; ++t) {
    ASSERT_TRUE(writer.begin(table_of(Txn(t), 2)).ok());
    std::memset(writer.buffers().data(), 0, 100);
    for (std::uint32_t v = 0; v < 3; ++v) {
      EXPECT_FALSE(writer.row_published(v));
      ASSERT_EQ(writer.row(v).size(), 100U);
      std::memset(writer.row(v).data(), static_cast<int>(10 * t + v + 1), 100);
      writer.publish_row(v);
      EXPECT_TRUE(writer.row_published(v));
    }
    for (std::uint32_t v = 0; v < 3; ++v) {
      EXPECT_TRUE(reader.row_published(v));
      EXPECT_EQ(reader.row(v)[0], std::byte(v + 1));
      EXPECT_EQ(reader.row(v)[99], std::byte(v + 1));
    }
  }
}

// Nothing is carried: nothing to wait for.
TYPED_TEST(ExchangeTest, RowsOfNoBytesAreThere) {
  Cluster<TypeParam> cluster({awkward_plan(2), Values::kAdversarial}, 1);
  ASSERT_TRUE(cluster.exchanges[0]->begin(table_of(Txn(0), 1)).ok());
  EXPECT_TRUE(cluster.exchanges[0]->row_published(1));
}

TYPED_TEST(ExchangeTest, WaitsForTheCallersConditionToo) {
  Cluster<TypeParam> cluster({awkward_plan(1), Values::kAdversarial}, 1);
  comm::Exchange& exchange = *cluster.exchanges[0];
  ASSERT_TRUE(exchange.begin(table_of(Txn(0), 1)).ok());
  std::set<std::uint32_t> done;
  Lent lent;
  publish_owned(exchange, cluster.work, Txn(0), done, cluster.work.plan.buckets.size(), lent);
  const auto outcome = exchange.wait([] { return false; }, Deadline::in(20ms));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::kTimedOut);
  const auto again = exchange.wait([] { return true; }, soon());
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(check_sums(exchange, cluster.work, Txn(0)), "");
}

// What saves the copy: half of a gradient, with two members, never reaches its piece.
TEST(ShmExchangeTest, WhatAMemberSumsItselfIsReadWhereItWasLent) {
  comm::ExchangePlan plan;
  plan.virtual_workers = 2;
  plan.chunk_bytes = 64;
  plan.buckets = {{DType::kFloat32, 8 * 16}};
  Cluster<ShmEngine> cluster({plan, Values::kIntegers}, 2);
  const std::vector<float> gradient(8 * 16, 1.0F);
  std::vector<std::thread> threads;
  for (std::uint32_t m = 0; m < 2; ++m)
    threads.emplace_back([&, m] {
      comm::Exchange& exchange = *cluster.exchanges[m];
      ASSERT_TRUE(exchange.begin(table_of(Txn(0), 2)).ok());
      exchange.lend(m, 0, 0, std::as_bytes(std::span(gradient)));
      const auto* piece = reinterpret_cast<const float*>(exchange.piece(m, 0).data());
      EXPECT_EQ(std::count(piece, piece + 8 * 16, 1.0F), 4 * 16) << "member " << m;
      exchange.publish(exchange.ownership().pieces()[m].node, 0);
      ASSERT_TRUE(exchange.wait([] { return true; }, soon()).ok());
      const auto* sum = reinterpret_cast<const float*>(exchange.sum(0).data());
      EXPECT_EQ(std::count(sum, sum + 8 * 16, 2.0F), 8 * 16) << "member " << m;
    });
  for (std::thread& thread : threads) thread.join();
}

TYPED_TEST(ExchangeTest, AbortEndsAWaitAndSticks) {
  Cluster<TypeParam> cluster({awkward_plan(2), Values::kAdversarial}, 2);
  comm::Exchange& exchange = *cluster.exchanges[0];
  ASSERT_TRUE(exchange.begin(table_of(Txn(0), 2)).ok());
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    exchange.abort({ErrorKind::kAborted, "first"});
    exchange.abort({ErrorKind::kInternal, "second"});
  });
  const auto outcome = exchange.wait([] { return true; }, soon());
  other.join();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::kAborted);
  EXPECT_EQ(outcome.error().message, "first");
  const auto later = exchange.wait([] { return true; }, soon());
  ASSERT_FALSE(later.ok());
  EXPECT_EQ(later.error().message, "first");
  const Status begun = exchange.begin(table_of(Txn(1), 2));
  ASSERT_FALSE(begun.ok());
  EXPECT_EQ(begun.error().message, "first");
}

TYPED_TEST(ExchangeTest, AMemberThatWasDeclaredDeadIsTold) {
  Cluster<TypeParam> cluster({awkward_plan(2), Values::kAdversarial}, 2);
  comm::Exchange& exchange = *cluster.exchanges[0];
  ASSERT_TRUE(exchange.begin(table_of(Txn(0), 2)).ok());
  cluster.engine.kill(WorkerUid(1));
  const auto outcome = exchange.wait([] { return true; }, soon());
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::kAborted);
}

TYPED_TEST(ExchangeTest, MoreMembersThanVirtualWorkersAreRefused) {
  Cluster<TypeParam> cluster({awkward_plan(2), Values::kAdversarial}, 1);
  const Status begun = cluster.exchanges[0]->begin(table_of(Txn(0), 3));
  ASSERT_FALSE(begun.ok());
  EXPECT_EQ(begun.error().kind, ErrorKind::kUsage);
}

TYPED_TEST(ExchangeTest, MoreBatchesThanPlannedAreRefused) {
  Cluster<TypeParam> cluster({awkward_plan(2), Values::kAdversarial}, 1);
  const Status begun = cluster.exchanges[0]->begin_evaluation(table_of(Txn(0), 1), 1);
  ASSERT_FALSE(begun.ok());
  EXPECT_EQ(begun.error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace lockstep::conformance
