#include "train/batches_of_one.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/linear.h>

namespace lockstep::training {
namespace {

using testing::HasSubstr;

struct Net : torch::nn::Module {
  explicit Net(bool batch_norm) {
    if (batch_norm)
      inner->push_back(torch::nn::BatchNorm1d(4));
    else
      inner->push_back(torch::nn::InstanceNorm1d(4));
    register_module("inner", inner);
  }
  torch::nn::Sequential inner{torch::nn::Linear(2, 4)};
};

// Of a run with that many samples on two virtual workers; empty: none.
std::string warning(std::int64_t samples, std::int64_t batch, torch::nn::Module& net,
                    RunOptions options = {}) {
  RunSpec spec;
  spec.options = std::move(options);
  spec.options.batch_size = batch;
  spec.train = *data::tensor_dataset(at::zeros({samples, 1}), at::zeros({samples}));
  EXPECT_TRUE(make_plans(spec, {}, 2, true).ok());
  TrainState state;
  EXPECT_TRUE(state.add("model", net).ok());
  return warning_of_batches_of_one(spec, state).value_or("");
}

TEST(BatchesOfOne, ALastBatchOfOneIsWarnedOfWhereABatchNormSeesIt) {
  Net net(true);  // on the stack
  EXPECT_THAT(warning(34, 16, net),
              testing::AllOf(HasSubstr("17 in batches of 16"), HasSubstr("'inner.1'"),
                             HasSubstr("--drop-last")));
  EXPECT_THAT(warning(33, 16, net), HasSubstr("17 in batches of 16")) << "padded to 17 each";
  EXPECT_EQ(warning(36, 16, net), "");
  EXPECT_EQ(warning(32, 16, net), "");
  EXPECT_THAT(warning(32, 1, net),
              testing::AllOf(HasSubstr("each batch has one sample"), HasSubstr("two samples")));
  EXPECT_EQ(warning(34, 16, net, {.drop_last = true}), "");
  EXPECT_EQ(warning(34, 16, net, {.max_steps = 1}), "") << "never reached";
  EXPECT_NE(warning(34, 16, net, {.accumulation_steps = 2}), "") << "each batch is one for itself";
  Net instances(false);
  EXPECT_EQ(warning(34, 16, instances), "");
  net.inner->eval();
  EXPECT_EQ(warning(34, 16, net), "") << "frozen";
}

TEST(BatchesOfOne, TheErrorAtTheStepNamesTheRemedy) {
  RunSpec spec;
  spec.options.batch_size = 16;
  spec.train = *data::tensor_dataset(at::zeros({17, 1}), at::zeros({17}));
  ASSERT_TRUE(make_plans(spec, {}, 1, true).ok());
  const Error error{ErrorKind::kInternal,
                    "Expected more than 1 value per channel when training, got input size [1, 4]"};
  EXPECT_THAT(with_remedy(error, spec).message, HasSubstr("--drop-last"));
  const Error other{ErrorKind::kInternal, "another"};
  EXPECT_EQ(with_remedy(other, spec).message, "another");
  spec.data_plan.batch_size = 17;  // then it is not for the batch's size
  EXPECT_EQ(with_remedy(error, spec).message, error.message);
}

}  // namespace
}  // namespace lockstep::training
