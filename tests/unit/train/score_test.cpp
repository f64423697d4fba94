#include "lockstep/score.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/dropout.h>

namespace lockstep {
namespace {

TEST(Score, CrossEntropyIsTheFunctionalsSumAndTheFirstGreatestScoreCounts) {
  at::manual_seed(3);
  const at::Tensor scores = at::randn({7, 5}), targets = at::randint(5, {7}, at::kLong);
  const Score score = cross_entropy_score(scores, targets);
  const auto sum = torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum);
  EXPECT_EQ(score.loss_sum,
            torch::nn::functional::cross_entropy(scores, targets, sum).item<double>());
  EXPECT_EQ(score.count, 7);
  const at::Tensor given = at::tensor({1., 3., 2., 5., 4., 0., 0., 1., 2., 2., 9., 9.});
  const at::Tensor classes = at::tensor({1, 1, 2, 1}, at::kLong);
  EXPECT_EQ(cross_entropy_score(given.view({4, 3}), classes).correct, 3);
  const at::Tensor equal = at::zeros({3, 4}), first = at::zeros({3}, at::kLong);
  EXPECT_EQ(cross_entropy_score(equal, first).correct, 3);
  EXPECT_EQ(cross_entropy_score(equal, first + 1).correct, 0);
}

TEST(Score, EachSampleIsScoredOnceInEvaluationModeAndModesComeBack) {
  torch::nn::Dropout model(0.5);
  const auto data =
      data::tensor_dataset(at::arange(10).reshape({10, 1}), at::zeros({10}, at::kLong));
  ASSERT_TRUE(data.ok());
  const auto found = evaluate(*model, **data, 4, [&](const data::Batch& batch) {
    EXPECT_FALSE(model->is_training() || at::GradMode::is_enabled());
    const at::Tensor inputs = batch.inputs.to(at::kDouble);
    return Score{inputs.sum().item<double>(), inputs[0].item<double>(), inputs.size(0)};
  });
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->loss_sum, 45);
  EXPECT_EQ(found->correct, 0 + 4 + 8);
  EXPECT_EQ(found->count, 10);
  EXPECT_TRUE(model->is_training() && at::GradMode::is_enabled());
}

TEST(Score, WhereTheDataSetLeavesNothingThereIsNoCall) {
  torch::nn::Dropout model(0.5);
  const auto first_four = [](data::Batch batch, const data::Pass&) {
    while (!batch.ids.empty() && batch.ids.back() > 3) batch.ids.pop_back();
    const auto left = static_cast<std::int64_t>(batch.ids.size());
    return data::Batch{batch.inputs.narrow(0, 0, left), batch.targets.narrow(0, 0, left),
                       batch.ids};
  };
  const auto data = *data::tensor_dataset(at::arange(10), at::arange(10), first_four);
  const auto found = evaluate(*model, *data, 3, [&](const data::Batch& batch) {
    EXPECT_GT(batch.size(), 0);
    return Score{1, 1, batch.size()};
  });
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->count, 4);
  EXPECT_EQ(found->left_out, 6);
  EXPECT_EQ(found->loss_sum, 2);
}

// Samples are counted by their ids, whatever the first dimension is; a set without ids is told.
TEST(Score, SamplesAreThoseOfTheIds) {
  torch::nn::Dropout model(0.5);
  const auto time_first = [](data::Batch batch, const data::Pass&) {
    batch.inputs = batch.inputs.view({1, -1});
    return batch;
  };
  const auto count = [](const data::Batch& batch) { return Score{0, 0, batch.targets.size(0)}; };
  const auto found = evaluate(
      *model, **data::tensor_dataset(at::arange(10), at::arange(10), time_first), 3, count);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->count, 10);
  EXPECT_EQ(found->left_out, 0);
  const auto nameless = [](data::Batch batch, const data::Pass&) {
    batch.ids.clear();
    return batch;
  };
  const auto refused =
      evaluate(*model, **data::tensor_dataset(at::arange(10), at::arange(10), nameless), 3, count);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_NE(refused.error().message.find("gave the ids of 0"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
