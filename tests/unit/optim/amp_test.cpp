#include "lockstep/amp.h"

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <limits>
#include <stdexcept>

#include "lockstep/state.h"

namespace lockstep {
namespace {

bool enabled() { return at::autocast::is_autocast_enabled(at::kCPU); }
at::ScalarType product_dtype() { return at::mm(at::ones({2, 2}), at::ones({2, 2})).scalar_type(); }

TEST(Autocast, ScopesNestAndLeaveEverythingAsItWas) {
  const at::ScalarType before = at::autocast::get_autocast_dtype(at::kCPU);
  {
    const Autocast outer(at::kCPU);
    EXPECT_EQ(product_dtype(), at::kBFloat16);
    {
      const Autocast inner(at::kCPU, at::kHalf, true, false);
      EXPECT_EQ(product_dtype(), at::kHalf);
      EXPECT_FALSE(at::autocast::is_autocast_cache_enabled());
    }
    {
      const Autocast off(at::kCPU, std::nullopt, false);
      EXPECT_EQ(product_dtype(), at::kFloat);
    }
    EXPECT_EQ(product_dtype(), at::kBFloat16);
    EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
  }
  EXPECT_FALSE(enabled());
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), before);
}

TEST(Autocast, RefusesADtypeThatIsNoHalf) {
  EXPECT_THROW(Autocast(at::kCPU, at::kDouble), std::invalid_argument);
  EXPECT_NO_THROW(Autocast(at::kCPU, at::kDouble, false));
  EXPECT_FALSE(enabled());
}

struct Trained {
  at::Tensor p = at::ones({2}).requires_grad_();
  SGD optimizer{{p}, {.lr = 1.0}};
  void set(float gradient) { p.mutable_grad() = at::full({2}, gradient); }
};

TEST(GradScaler, LeavesOutStepsThatOverflowAndGrowsAfterGoodOnes) {
  Trained one;
  GradScaler scaler({.init_scale = 8, .growth_interval = 2});
  const NamedTensors state = scaler.state();
  const auto turn = [&](float gradient) {
    one.set(gradient);
    const bool stepped = scaler.step(one.optimizer);
    scaler.update();
    return stepped;
  };
  EXPECT_TRUE(turn(8));
  EXPECT_EQ(one.p[0].item<float>(), 0);  // 1 - 8 / 8
  EXPECT_FALSE(turn(std::numeric_limits<float>::quiet_NaN()));
  EXPECT_EQ(one.p[0].item<float>(), 0);
  EXPECT_EQ(scaler.get_scale(), 4);
  EXPECT_TRUE(turn(4));
  EXPECT_EQ(scaler.get_scale(), 4);
  EXPECT_TRUE(turn(4));
  EXPECT_EQ(scaler.get_scale(), 8);
  EXPECT_EQ(state[0].second.item<float>(), 8) << "the state's tensors are the scaler's own";
}

TEST(GradScaler, UnscalesWhatTwoOptimizersHaveOnce) {
  Trained one;
  SGD other({one.p}, {.lr = 1});
  GradScaler scaler({.init_scale = 8});
  one.set(16);
  scaler.unscale_({&one.optimizer, &other});
  EXPECT_EQ(one.p.grad()[0].item<float>(), 2);
  EXPECT_TRUE(scaler.step(one.optimizer));
  EXPECT_TRUE(scaler.step(other));
  scaler.update();
  one.set(std::numeric_limits<float>::infinity());
  scaler.unscale_({&one.optimizer, &other});
  EXPECT_FALSE(scaler.step(one.optimizer));
  EXPECT_FALSE(scaler.step(other));
}

TEST(GradScaler, RefusesWhatPyTorchRefuses) {
  Trained one;
  GradScaler scaler;
  EXPECT_THROW(scaler.update(), std::logic_error);
  one.set(1);
  scaler.unscale_(one.optimizer);
  EXPECT_THROW(scaler.unscale_(one.optimizer), std::logic_error);
  scaler.step(one.optimizer);
  EXPECT_THROW(scaler.step(one.optimizer), std::logic_error);
  EXPECT_EQ(GradScaler({.growth_factor = 1}).check().error().message,
            "GradScaler: The growth factor must be > 1.0.");
  for (const GradScalerOptions& wrong :
       {GradScalerOptions{.init_scale = 1e40}, GradScalerOptions{.init_scale = 0},
        GradScalerOptions{.backoff_factor = 1}, GradScalerOptions{.growth_interval = 0}})
    EXPECT_FALSE(GradScaler(wrong).check().ok());
  EXPECT_TRUE(scaler.check().ok());
}

TEST(GradScaler, DoesNothingWhenItIsNotEnabled) {
  Trained one;
  GradScaler scaler({.enabled = false});
  one.set(std::numeric_limits<float>::infinity());
  EXPECT_TRUE(scaler.scale(one.p).is_same(one.p));
  EXPECT_TRUE(scaler.step(one.optimizer));
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 1);
  EXPECT_TRUE(scaler.state().empty());
}

TEST(TrainState, HasOneScaler) {
  TrainState state;
  GradScaler scaler, second;
  EXPECT_TRUE(state.add("scaler", scaler).ok());
  EXPECT_EQ(state.other_tensors().size(), 2U);
  EXPECT_EQ(state.add("another", second).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(state.scaler(), &scaler);
}

TEST(GradScaler, GrowsNoFurtherThanItsMost) {
  Trained one;
  GradScaler scaler({.init_scale = 8, .growth_interval = 1, .max_scale = 24});
  EXPECT_TRUE(scaler.check().ok());
  for (const double scale : {16, 24, 24}) {
    one.set(1);
    scaler.step(one.optimizer);
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), scale);
  }
  EXPECT_FALSE(GradScaler({.init_scale = 8, .max_scale = 4}).check().ok());
  EXPECT_EQ(GradScaler().settings().find("max_scale"), std::string::npos);
}

struct HalfNetImpl : torch::nn::Module {
  HalfNetImpl() {
    register_module("linear", linear);
    register_module("norm", norm);
    register_module("plain", plain);
    register_module("again", linear);
  }
  torch::nn::Linear linear{2, 2};
  torch::nn::BatchNorm1d norm{2};
  torch::nn::BatchNorm1d plain{torch::nn::BatchNormOptions(2).affine(false)};
};
TORCH_MODULE(HalfNet);

TEST(MasterWeights, ConvertsAllButBatchNormsWithWeights) {
  HalfNet net;
  net->linear->bias.set_requires_grad(false);
  const at::Tensor made = net->linear->weight.detach().clone();
  const MasterWeights masters(*net, at::kHalf);
  EXPECT_EQ(net->linear->weight.scalar_type(), at::kHalf);
  EXPECT_EQ(net->norm->weight.scalar_type(), at::kFloat);
  EXPECT_EQ(net->norm->running_mean.scalar_type(), at::kFloat);
  EXPECT_EQ(net->plain->running_mean.scalar_type(), at::kHalf);
  EXPECT_EQ(net->plain->num_batches_tracked.scalar_type(), at::kLong);
  ASSERT_EQ(masters.pairs().size(), 2U) << "a layer that is there twice has its weights once";
  EXPECT_TRUE(at::equal(masters.pairs()[0].master, made.to(at::kHalf).to(at::kFloat)));
  EXPECT_TRUE(masters.pairs()[0].master.requires_grad());
  EXPECT_FALSE(masters.pairs()[1].master.requires_grad()) << "what is frozen stays frozen";
  for (const auto& [name, tensor] : masters.state_dict())
    EXPECT_EQ(tensor.scalar_type() == at::kHalf,
              name == "plain.running_mean" || name == "plain.running_var")
        << name;
  EXPECT_THROW(MasterWeights(*net, at::kDouble), std::invalid_argument);
}

TEST(MasterWeights, TrainsWhatHalfWeightsWouldSwallow) {
  HalfNet net;
  MasterWeights masters(*net, at::kHalf);
  SGD optimizer(masters.parameters(), {.lr = 1});
  const MasterWeights::Pair weight = masters.pairs()[0];
  {
    const at::NoGradGuard no_grad;
    weight.master.fill_(1);
  }
  masters.master_params_to_model_params();
  net->linear->weight.mutable_grad() = at::full({2, 2}, -0.0001, at::kHalf);
  for (int step = 0; step < 10; ++step) {  // each one is a fifth of what half 1 can be moved by
    masters.model_grads_to_master_grads();
    optimizer.step();
    masters.master_params_to_model_params();
    EXPECT_FALSE(weight.master.grad().defined());
  }
  EXPECT_NEAR(weight.master[0][0].item<double>(), 1.001, 1e-5);
  EXPECT_TRUE(at::equal(net->linear->weight, at::full({2, 2}, 1.001, at::kHalf)));
  net->linear->weight.mutable_grad().reset();
  masters.model_grads_to_master_grads();
  EXPECT_FALSE(weight.master.grad().defined()) << "an unused one stays without";
}

TEST(MasterWeights, AreTheModelInTheTrainState) {
  HalfNet net;
  MasterWeights masters(*net, at::kBFloat16);
  TrainState state;
  EXPECT_FALSE(state.add("masters", masters).ok()) << "their model is not there yet";
  ASSERT_TRUE(state.add("model", *net).ok());
  ASSERT_TRUE(state.add("master_weights", masters).ok());
  EXPECT_FALSE(state.add("again", masters).ok());
  EXPECT_EQ(state.parameters().front().name, "linear.weight");
  EXPECT_TRUE(state.parameters().front().tensor.is_same(masters.pairs()[0].master));
  EXPECT_TRUE(state.leaves().front().tensor.is_same(net->linear->weight));
}

}  // namespace
}  // namespace lockstep
