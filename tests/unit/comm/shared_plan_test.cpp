#include "comm/shm/shared_plan.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "comm/shm/layout.h"
#include "conformance/shared_board.h"

namespace lockstep::comm::shm {
namespace {

// As long as conformance::SharedBoard is.
constexpr coord::BoardPlan kBoard{3, 0, 64, 2, 5};

ExchangePlan plan_of_three() {
  ExchangePlan plan;
  plan.virtual_workers = 3;
  plan.buckets = {{DType::kFloat32, 100'000}, {DType::kBFloat16, 5}, {DType::kFloat64, 0}};
  plan.scale = 1.0F / 3;
  plan.buffer_bytes = 10;
  plan.row_bytes = 70;
  plan.eval_items = 3;
  plan.note_words = 9;
  plan.state_bytes = 5000;
  return plan;
}

std::uint64_t room(const coord::Board& board, const ExchangePlan& plan) {
  return plan.board_bytes - board.data_offset() - plan.offset;
}

class SharedPlanTest : public testing::Test {
 protected:
  coord::Board board(const coord::BoardPlan& plan = kBoard) const {
    return coord::Board(memory_.board().base(), plan);
  }
  std::optional<SharedPlan> found() const {
    return shared_plan(memory_.board().base(), coord::kBoardBytes);
  }
  const ExchangePlan plan_ = plan_of_three();
  const conformance::SharedBoard memory_{plan_};
};

// What the link between hosts will do: from the board's first byte to each place in it.
TEST_F(SharedPlanTest, AProcessWithoutParametersFindsTheWorkersPlaces) {
  EXPECT_FALSE(found());
  ASSERT_TRUE(share_plan(board(), plan_).ok());
  const auto plan = found();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->board, kBoard);
  EXPECT_EQ(plan->exchange, plan_);
  const coord::Board its(memory_.board().base(), plan->board);
  EXPECT_EQ(its.data(), board().data());
  EXPECT_EQ(&its.record(Txn(8), VirtualWorker(2)), &board().record(Txn(8), VirtualWorker(2)));
  const Layout a = Layout::make(plan_, room(board(), plan_)).value();
  const Layout b = Layout::make(plan->exchange, room(its, plan->exchange)).value();
  for (std::uint32_t bucket = 0; bucket < 3; ++bucket) {
    EXPECT_EQ(a.chunks(bucket), b.chunks(bucket));
    EXPECT_EQ(a.sum(bucket), b.sum(bucket));
    EXPECT_EQ(a.chunk_mark(bucket, 0), b.chunk_mark(bucket, 0));
    EXPECT_EQ(a.piece(5, 2, bucket), b.piece(5, 2, bucket));
  }
  EXPECT_EQ(a.row(Txn(6), 2), b.row(Txn(6), 2));
  EXPECT_EQ(a.eval_cell(Txn(6), 2), b.eval_cell(Txn(6), 2));
  EXPECT_EQ(a.heal(), b.heal());
  EXPECT_EQ(a.end(), b.end());
}

TEST_F(SharedPlanTest, OthersWithTheSamePlanAgree) {
  for (int worker = 0; worker < 3; ++worker) EXPECT_TRUE(share_plan(board(), plan_).ok());
  EXPECT_EQ(found()->exchange, plan_);
}

TEST_F(SharedPlanTest, EachNumberThatDiffersIsToldWithBothValues) {
  ASSERT_TRUE(share_plan(board(), plan_).ok());
  using Change = std::function<void(ExchangePlan&)>;
  const std::vector<std::pair<std::string, Change>> changes{
      {"virtual workers: 4 in this worker, 3 in", [](auto& p) { p.virtual_workers = 4; }},
      {"scale", [](auto& p) { p.scale = 0.5F; }},
      {"bytes of buffers: 11 in this worker, 10 in", [](auto& p) { p.buffer_bytes = 11; }},
      {"bytes of a carried row: 0 in this worker, 70 in", [](auto& p) { p.row_bytes = 0; }},
      {"batches of an evaluation: 4 in this worker, 3 in", [](auto& p) { p.eval_items = 4; }},
      {"words of notes: 8 in this worker, 9 in", [](auto& p) { p.note_words = 8; }},
      {"hosts: 2 in this worker, 1 in", [](auto& p) { p.hosts = 2; }},
      {"bytes of the state: 5001 in this worker, 5000 in", [](auto& p) { p.state_bytes = 5001; }},
      {"bytes of a chunk: 64 in this worker, 131072 in", [](auto& p) { p.chunk_bytes = 64; }},
      {"bytes of the board", [](auto& p) { p.board_bytes /= 2; }},
      {"buckets: 2 in this worker, 3 in", [](auto& p) { p.buckets.pop_back(); }},
      {"buckets: 4 in this worker, 3 in", [](auto& p) { p.buckets.push_back(p.buckets[0]); }},
      {"dtype of bucket 1: 3 in this worker, 2 in",
       [](auto& p) { p.buckets[1].dtype = DType::kFloat16; }},
      {"elements of bucket 2: 6 in this worker, 0 in", [](auto& p) { p.buckets[2].count = 6; }},
  };
  for (const auto& [text, change] : changes) {
    ExchangePlan other = plan_;
    change(other);
    const Status shared = share_plan(board(), other);
    ASSERT_FALSE(shared.ok()) << text;
    EXPECT_EQ(shared.error().kind, ErrorKind::kUsage);
    EXPECT_NE(shared.error().message.find(text), std::string::npos) << shared.error().message;
  }
  coord::BoardPlan other = kBoard;
  other.updates = 6;
  const Status shared = share_plan(board(other), plan_);
  ASSERT_FALSE(shared.ok());
  EXPECT_NE(shared.error().message.find("updates of a step: 6 in this worker, 5 in"),
            std::string::npos);
  EXPECT_EQ(found()->exchange, plan_) << "the first one's stays";
}

// Whoever writes it may die at any word.
TEST_F(SharedPlanTest, WhatADeadWorkerHasBegunIsEndedByTheNext) {
  std::byte* const place = board().data() + shared_plan_offset();
  const std::uint64_t words = shared_plan_bytes(plan_) / sizeof(coord::Word);
  auto* const word = reinterpret_cast<coord::Word*>(place);
  ASSERT_TRUE(share_plan(board(), plan_).ok());
  for (std::uint64_t written = 0; written < words; ++written) {
    board().header().exchange_plan.store(0);
    for (std::uint64_t i = written; i < words; ++i) word[i].store(0);
    EXPECT_FALSE(found());
    ASSERT_TRUE(share_plan(board(), plan_).ok()) << written;
    EXPECT_EQ(found()->exchange, plan_);
  }
}

TEST_F(SharedPlanTest, OfSeveralExchangesTheFirstIsTheRuns) {
  ASSERT_TRUE(share_plan(board(), plan_).ok());
  ExchangePlan second = plan_;
  second.offset = Layout::make(plan_, room(board(), plan_)).value().end();
  second.buckets.pop_back();
  // Only its numbers' own pages are touched.
  const conformance::SharedBoard longer(
      {3, {{DType::kFloat32, second.offset / 4}}, 1, 0, 0, 0, 0, 4096});
  const coord::Board other(longer.board().base(), kBoard);
  ASSERT_TRUE(share_plan(other, plan_).ok());
  ASSERT_TRUE(share_plan(other, second).ok());
  EXPECT_EQ(shared_plan(longer.board().base(), coord::kBoardBytes)->exchange, plan_);
}

TEST_F(SharedPlanTest, OneThatCannotBeThereIsNone) {
  ASSERT_TRUE(share_plan(board(), plan_).ok());
  const std::uint64_t place = board().header().exchange_plan.load();
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, place, place + 64, place + shared_plan_bytes(plan_) - 1})
    EXPECT_FALSE(shared_plan(memory_.board().base(), bytes)) << bytes;
  EXPECT_TRUE(shared_plan(memory_.board().base(), place + shared_plan_bytes(plan_)));
}

}  // namespace
}  // namespace lockstep::comm::shm
