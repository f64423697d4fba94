#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "lockstep/data.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

TEST(Plan, MnistOnFourWorkersIsTheTutorials) {
  const DataPlan plan{.dataset_size = 60000, .virtual_workers = 4, .batch_size = 100};
  ASSERT_TRUE(plan.check().ok());
  EXPECT_EQ(plan.steps_per_epoch(), 150);
  EXPECT_EQ(plan.samples_per_worker(), 15000);
  EXPECT_EQ(plan.batch_at(149), 100);
}

TEST(Plan, SharesOfAnEpochAreTheSamplersOrderCutIntoBatches) {
  for (const std::int64_t workers : {1, 2, 3, 5, 8}) {
    const DataPlan plan{
        .dataset_size = 103, .virtual_workers = workers, .batch_size = 4, .seed = 7};
    const auto order = *DataOrder::make(plan);
    for (const std::uint64_t epoch : {0, 1, 4}) {
      for (std::int64_t v = 0; v < workers; ++v) {
        const DistributedSampler sampler{
            .dataset_size = 103, .num_replicas = workers, .rank = v, .seed = 7};
        Ids joined;
        for (std::int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
          const Ids ids = *order->ids({epoch, step}, v);
          EXPECT_EQ(static_cast<std::int64_t>(ids.size()), plan.batch_at(step));
          joined.insert(joined.end(), ids.begin(), ids.end());
        }
        EXPECT_EQ(joined, *sampler.order(epoch));
      }
    }
  }
}

TEST(Plan, EachSampleOncePlusPadding) {
  const DataPlan plan{.dataset_size = 50, .virtual_workers = 4, .batch_size = 6};
  const auto order = *DataOrder::make(plan);
  std::map<std::int64_t, int> seen;
  for (std::int64_t step = 0; step < plan.steps_per_epoch(); ++step)
    for (std::int64_t v = 0; v < 4; ++v) {
      const Ids ids = *order->ids({0, step}, v);
      for (const std::int64_t id : ids) ++seen[id];
    }
  EXPECT_EQ(seen.size(), 50U);
  int twice = 0;
  for (const auto& [id, times] : seen) twice += times == 2;
  EXPECT_EQ(twice, 2);  // 13 * 4 - 50
}

TEST(Plan, DistributedRepeatsEpochZeroReshuffleDoesNot) {
  DataPlan plan{.dataset_size = 1000,
                .virtual_workers = 2,
                .batch_size = 100,
                .shuffle = Shuffle::kDistributed};
  const auto fixed = *DataOrder::make(plan);
  EXPECT_EQ(*fixed->ids({0, 1}, 1), *fixed->ids({3, 1}, 1));
  plan.shuffle = Shuffle::kReshuffle;
  const auto fresh = *DataOrder::make(plan);
  EXPECT_EQ(*fresh->ids({0, 1}, 1), *fixed->ids({0, 1}, 1));
  EXPECT_NE(*fresh->ids({3, 1}, 1), *fixed->ids({3, 1}, 1));
  plan.shuffle = Shuffle::kSequential;
  EXPECT_EQ(*(*DataOrder::make(plan))->ids({2, 0}, 1), [] {
    Ids odd;
    for (std::int64_t i = 1; i < 200; i += 2) odd.push_back(i);
    return odd;
  }());
}

TEST(Plan, AnyEpochInAnyOrderGivesTheSame) {
  const DataPlan plan{.dataset_size = 500, .batch_size = 500, .seed = 3};
  const auto forward = *DataOrder::make(plan);
  const auto mixed = *DataOrder::make(plan);
  std::map<std::uint64_t, Ids> ids;
  for (std::uint64_t epoch = 0; epoch < 6; ++epoch) ids[epoch] = *forward->ids({epoch, 0}, 0);
  for (const std::uint64_t epoch : {5, 0, 3, 3, 1, 4, 0, 2, 5})
    EXPECT_EQ(*mixed->ids({epoch, 0}, 0), ids[epoch]);
}

TEST(Plan, RemaindersDropped) {
  const DataPlan plan{.dataset_size = 103,
                      .virtual_workers = 4,
                      .batch_size = 10,
                      .drop_last = true,
                      .drop_last_batch = true};
  EXPECT_EQ(plan.samples_per_worker(), 25);
  EXPECT_EQ(plan.steps_per_epoch(), 2);
  EXPECT_EQ(plan.batch_at(1), 10);
}

TEST(Plan, RowsGoOnFromStepToStepAndLeaveOutTheRest) {
  DataPlan plan{
      .dataset_size = 32, .virtual_workers = 3, .batch_size = 4, .shuffle = Shuffle::kRows};
  EXPECT_EQ(plan.samples_per_worker(), 10);
  EXPECT_EQ(plan.steps_per_epoch(), 3);
  const auto order = *DataOrder::make(plan);
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch)
    for (std::int64_t v = 0; v < 3; ++v) {
      std::int64_t next = v * 10;
      for (std::int64_t step = 0; step < 3; ++step) {
        const auto ids = *order->ids({epoch, step}, v);
        for (const std::int64_t id : ids) EXPECT_EQ(id, next++);
      }
      EXPECT_EQ(next, v * 10 + 10);
    }
  plan.drop_last_batch = true;
  EXPECT_EQ(plan.steps_per_epoch(), 2);
  plan.dataset_size = 2;
  EXPECT_FALSE(plan.check().ok());  // no row has a sample
}

TEST(Plan, CursorAndGlobalStepAreInverse) {
  const DataPlan plan{.dataset_size = 103, .virtual_workers = 4, .batch_size = 10};
  ASSERT_EQ(plan.steps_per_epoch(), 3);
  EXPECT_EQ(plan.cursor(7), (Cursor{2, 1}));
  for (std::uint64_t step = 0; step < 100; ++step)
    EXPECT_EQ(plan.global_step(plan.cursor(step)), step);
}

TEST(Plan, BadPlansSayWhatAndTheLimit) {
  const auto complaint = [](const DataPlan& plan) {
    const auto order = DataOrder::make(plan);
    if (order.ok()) return std::string("accepted");
    EXPECT_EQ(order.error().kind, ErrorKind::kUsage);
    return order.error().message;
  };
  EXPECT_THAT(complaint({}), HasSubstr("dataset_size is 0"));
  EXPECT_THAT(complaint({.dataset_size = 5, .virtual_workers = 0}), HasSubstr("num_replicas is 0"));
  EXPECT_THAT(complaint({.dataset_size = 5, .batch_size = 0}), HasSubstr("is 0, must be 1"));
  EXPECT_THAT(complaint({.dataset_size = 5, .batch_size = 4, .shuffle = Shuffle::kLegacy}),
              HasSubstr("generator_state"));
  EXPECT_THAT(complaint({.dataset_size = 5, .virtual_workers = 2, .shuffle = Shuffle::kLegacy}),
              HasSubstr("2 virtual workers"));
  EXPECT_THAT(complaint({.dataset_size = 5, .virtual_workers = 8, .drop_last = true}),
              HasSubstr("no step"));
  const DataPlan damaged{
      .dataset_size = 5, .shuffle = Shuffle::kLegacy, .generator_state = "short"};
  EXPECT_EQ(DataOrder::make(damaged).error().kind, ErrorKind::kBadData);
}

// As DataLoader has it: one batch of what there is.
TEST(Plan, ABatchMayBeLargerThanTheDataSet) {
  const DataPlan plan{.dataset_size = 5, .virtual_workers = 2, .batch_size = 1'000'000};
  ASSERT_TRUE(plan.check().ok());
  EXPECT_EQ(plan.steps_per_epoch(), 1);
  EXPECT_EQ(plan.batch_at(0), 3);
  EXPECT_EQ((*DataOrder::make(plan))->ids({0, 0}, 1)->size(), 3U);
}

TEST(Plan, SharesOutsideThePlanAreRefused) {
  const auto order = *DataOrder::make({.dataset_size = 50, .virtual_workers = 2, .batch_size = 10});
  EXPECT_THAT(order->ids({0, 3}, 0).error().message, HasSubstr("step is 3, must be 0 to 2"));
  EXPECT_FALSE(order->ids({0, -1}, 0).ok());
  EXPECT_THAT(order->ids({0, 0}, 2).error().message, HasSubstr("virtual worker is 2"));
}

TEST(Plan, ShuffleNames) {
  for (const Shuffle shuffle : {Shuffle::kRows, Shuffle::kSequential, Shuffle::kDistributed,
                                Shuffle::kReshuffle, Shuffle::kDataLoader, Shuffle::kLegacy})
    EXPECT_EQ(*parse_shuffle(to_string(shuffle)), shuffle);
  EXPECT_THAT(parse_shuffle("legcy").error().message, HasSubstr("did you mean 'legacy'"));
}

}  // namespace
}  // namespace lockstep::data
