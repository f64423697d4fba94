#include "lockstep/amp.h"

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lockstep
