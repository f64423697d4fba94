#include "lockstep/trainer.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "support/temp_folder.h"

namespace lockstep {
namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("norm", norm);
    register_module("linear", linear);
  }
  at::Tensor forward(const at::Tensor& x) { return linear(norm(x)); }
  torch::nn::BatchNorm1d norm{4};
  torch::nn::Linear linear{4, 2};
};
TORCH_MODULE(Net);

TEST(Trainer, LeavesFrozenPartsFrozenAndEvaluatesInEvaluationMode) {
  const test::TempFolder folder;
  auto context = init({.threads = 1});
  ASSERT_TRUE(context.ok()) << context.error().message;
  Net net;
  net->norm->eval();
  SGD optimizer(net->parameters(), {.lr = 0.1});
  RunOptions options;
  options.output = folder / "run";
  options.epochs = 2;
  options.batch_size = 4;
  Trainer trainer(*context, *net, optimizer, options);
  int steps = 0, evaluations = 0;
  trainer.loss([&](const data::Batch& batch) {
    EXPECT_TRUE(net->is_training() && net->linear->is_training());
    EXPECT_FALSE(net->norm->is_training()) << "step " << steps;
    ++steps;
    return torch::nn::functional::cross_entropy(net->forward(batch.inputs), batch.targets);
  });
  trainer.evaluation([&](const data::Batch& batch) {
    EXPECT_FALSE(net->is_training() || net->linear->is_training() || net->norm->is_training());
    ++evaluations;
    return Score{0, 0, batch.inputs.size(0)};
  });
  const auto data = data::tensor_dataset(at::randn({8, 4}), at::zeros({8}, at::kLong));
  ASSERT_TRUE(data.ok());
  const Status done = trainer.fit(*data, *data);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(steps, 4);
  EXPECT_EQ(evaluations, 2);
}

}  // namespace
}  // namespace lockstep
