#include "lockstep/trainer.h"

#include <ATen/Context.h>
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

Context& context() {
  static Result<Context> made = init({.threads = 1});
  return *made;
}

// A process has one run.
TEST(Trainer, LeavesFrozenPartsFrozenEvaluatesInEvaluationModeAndDropsAShortLastBatch) {
  const test::TempFolder folder;
  Context& own = context();
  Net net;
  net->norm->eval();
  SGD optimizer(net->parameters(), {.lr = 0.1});
  RunOptions options;
  options.output = folder / "run";
  options.epochs = 2;
  options.batch_size = 4;
  options.drop_last = true;
  options.evaluation_batch_size = 10;
  Trainer trainer(own, *net, optimizer, options);
  int steps = 0, evaluations = 0;
  trainer.loss([&](const data::Batch& batch) {
    EXPECT_TRUE(net->is_training() && net->linear->is_training());
    EXPECT_FALSE(net->norm->is_training()) << "step " << steps;
    EXPECT_TRUE(at::GradMode::is_enabled());
    ++steps;
    EXPECT_EQ(batch.inputs.size(0), 4);
    EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
    EXPECT_FALSE(at::globalContext().deterministicAlgorithmsWarnOnly());
    return torch::nn::functional::cross_entropy(net->forward(batch.inputs), batch.targets);
  });
  trainer.evaluation([&](const data::Batch& batch) {
    EXPECT_FALSE(net->is_training() || net->linear->is_training() || net->norm->is_training());
    EXPECT_FALSE(at::GradMode::is_enabled());
    ++evaluations;
    return Score{0, 0, batch.inputs.size(0)};
  });
  const auto data = data::tensor_dataset(at::randn({10, 4}), at::zeros({10}, at::kLong));
  ASSERT_TRUE(data.ok());
  const Status done = trainer.fit(*data, *data);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(steps, 7);  // of 4 the rehearsal has the first one twice, and its share steps 1 and 2
  EXPECT_EQ(evaluations, 4);  // of one batch, which the first two have twice
  EXPECT_EQ(run_so_far(own, options)->manifest.at("drop_last"), "yes");
}

TEST(Trainer, RefusesAnOptimizerOfWeightsThatNobodyKeeps) {
  const test::TempFolder folder;
  RunOptions options;
  options.output = folder / "run";
  const auto refusal = [&](Net& net, SGD& optimizer, MasterWeights* masters) {
    Trainer trainer(context(), *net, optimizer, options);
    if (masters != nullptr) trainer.master_weights(*masters);
    trainer.loss([&](const data::Batch& batch) { return net->forward(batch.inputs).sum(); });
    const Status done = trainer.fit(*data::tensor_dataset(at::randn({8, 4}), at::zeros({8})));
    return done.ok() ? "" : done.error().message;
  };
  Net net;
  SGD early(net->parameters(), {.lr = 0.1});
  MasterWeights masters(*net, at::kHalf);
  SGD right(masters.parameters(), {.lr = 0.1});
  EXPECT_NE(refusal(net, early, &masters).find("half weights"), std::string::npos);
  EXPECT_NE(refusal(net, right, nullptr).find("not in the train state"), std::string::npos);
}

TEST(Trainer, HasRoomInItsHistoryForAllEpochsThatTheRunIsToHave) {
  const test::TempFolder folder;
  RunOptions options;
  options.output = folder / "run";
  const auto refusal = [&] {
    Net net;
    SGD optimizer(net->parameters(), {.lr = 0.1});
    Trainer trainer(context(), *net, optimizer, options);
    trainer.keep_history();
    trainer.loss([&](const data::Batch& batch) { return net->forward(batch.inputs).sum(); });
    const Status done = trainer.fit(*data::tensor_dataset(at::randn({8, 4}), at::zeros({8})));
    return done.ok() ? "" : done.error().message;
  };
  options.max_duration = Duration::epochs(20'000);
  EXPECT_NE(refusal().find("the run is to have 20000"), std::string::npos) << refusal();
  options.epochs = 20'000;  // without effect
  options.max_duration = Duration::epochs(1);
  EXPECT_EQ(refusal().find("is to have"), std::string::npos) << refusal();
}

TEST(RunSoFar, HasTheNumberOfVirtualWorkersAndTheManifestOfARunToGoOnWith) {
  const test::TempFolder folder;
  RunOptions options;
  options.output = folder / "run";
  const auto fresh = run_so_far(context(), options);
  ASSERT_TRUE(fresh.ok()) << fresh.error().message;
  EXPECT_EQ(fresh->virtual_workers, 1);
  EXPECT_TRUE(fresh->manifest.empty());

  folder.write("run/manifest.json",
               R"({"initial_weights_sha256":"00","colour":"blue","virtual_workers":"3"})");
  const auto there = run_so_far(context(), options);
  ASSERT_TRUE(there.ok()) << there.error().message;
  EXPECT_EQ(there->virtual_workers, 3);
  EXPECT_EQ(there->manifest.at("colour"), "blue");

  options.virtual_workers = 2;
  EXPECT_EQ(run_so_far(context(), options)->virtual_workers, 2);
  options.virtual_workers = 0;
  options.resume = "never";
  const auto anew = run_so_far(context(), options);
  ASSERT_TRUE(anew.ok()) << anew.error().message;
  EXPECT_EQ(anew->virtual_workers, 1);
  EXPECT_TRUE(anew->manifest.empty());

  options.resume = "auto";
  folder.write("run/manifest.json", "{}");
  EXPECT_EQ(run_so_far(context(), options).error().kind, ErrorKind::kUsage) << "no run's";
}

}  // namespace
}  // namespace lockstep
