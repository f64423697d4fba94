#include "comm/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <span>

#include "conformance/shared_board.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;

ExchangePlan plan_of(std::uint64_t count) {
  ExchangePlan plan;
  plan.buckets = {{DType::kFloat32, count}};
  return plan;
}

// Longer than all exchanges below together.
class EngineTest : public testing::Test {
 protected:
  const conformance::SharedBoard memory_{plan_of(std::uint64_t{1} << 30)};
  Engine engine_{memory_.board(), coord::kBoardBytes, Slot(0), WorkerUid(1)};
  const coord::Table table_{Txn(0), Generation(1), coord::kNone, {{WorkerUid(1), Slot(0)}}};

  // The sum of this one member's `value`.
  static void sum(Exchange& exchange, const coord::Table& table, float value) {
    ASSERT_TRUE(exchange.begin(table).ok());
    const std::span<std::byte> piece = exchange.piece(0, 0);
    std::fill_n(reinterpret_cast<float*>(piece.data()), piece.size() / sizeof(float), value);
    exchange.publish({0, 0}, 0);
    ASSERT_TRUE(exchange.wait([] { return true; }, Deadline::in(20s)).ok());
  }
  static bool has(const Exchange& exchange, float value) {
    const std::span<const std::byte> sum = exchange.sum(0);
    const auto* first = reinterpret_cast<const float*>(sum.data());
    return std::all_of(first, first + sum.size() / sizeof(float),
                       [&](float x) { return x == value; });
  }
};

TEST_F(EngineTest, WhatItMakesLiesBehindEachOther) {
  const auto group = engine_.make_group(table_);
  const auto first = engine_.make_exchange(plan_of(5000));
  const auto second = engine_.make_exchange(plan_of(70));
  EXPECT_GE(first->end(), shm_group_bytes() + 5000 * sizeof(float));
  EXPECT_GE(second->end(), first->end() + 70 * sizeof(float));
  sum(*first, table_, 3);
  sum(*second, table_, 4);
  float mine = 5;
  ASSERT_TRUE(group
                  ->all_reduce(std::as_writable_bytes(std::span(&mine, 1)), DType::kFloat32,
                               Deadline::in(20s))
                  .ok());
  EXPECT_EQ(mine, 5);
  EXPECT_TRUE(has(*first, 3));
  EXPECT_TRUE(has(*second, 4));
}

TEST_F(EngineTest, APlanThatDoesNotFitIsToldByTheFirstBegin) {
  const auto large = engine_.make_exchange(plan_of(std::uint64_t{1} << 50));
  const Status begun = large->begin(table_);
  ASSERT_FALSE(begun.ok());
  EXPECT_EQ(begun.error().kind, ErrorKind::kUsage);
}

// As workers of one program with different models would be.
TEST_F(EngineTest, AWorkerWithAnotherPlanIsToldByItsFirstBegin) {
  const auto first = engine_.make_exchange(plan_of(100));
  Engine others(memory_.board(), coord::kBoardBytes, Slot(1), WorkerUid(2));
  const auto second = others.make_exchange(plan_of(101));
  EXPECT_TRUE(first->begin(table_).ok());
  const Status begun = second->begin(table_);
  ASSERT_FALSE(begun.ok());
  EXPECT_EQ(begun.error().kind, ErrorKind::kUsage);
  EXPECT_NE(begun.error().message.find("elements of bucket 0: 101 in this worker, 100 in another"),
            std::string::npos)
      << begun.error().message;
}

}  // namespace
}  // namespace lockstep::comm
