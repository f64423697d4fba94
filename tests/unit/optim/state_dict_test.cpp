// Optimizer::load_state_dict(): what fits is taken over; what does not is named, nothing changed.
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/optim.h"

namespace lockstep {
namespace {

std::vector<at::Tensor> matrix_and_bias() { return {at::zeros({2, 3}), at::zeros({4})}; }

// After one update of its first parameter.
template <class Kind>
Kind updated(Kind optimizer) {
  at::Tensor p = optimizer.parameters()[0];
  p.mutable_grad() = at::ones({2, 3});
  optimizer.step();
  return optimizer;
}

std::string load(Optimizer& optimizer, const OptimizerStateDict& dict) {
  const auto bytes = [&] {
    std::string all = optimizer.settings();
    for (const auto& [name, tensor] : optimizer.state())
      all.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    return all;
  };
  const std::string before = bytes();
  const Status loaded = optimizer.load_state_dict(dict);
  if (loaded.ok()) return "";
  EXPECT_EQ(bytes(), before) << loaded.error().message;
  EXPECT_EQ(loaded.error().kind, ErrorKind::kBadData);
  const std::string start = "the state_dict is not of this optimizer: ";
  EXPECT_TRUE(loaded.error().message.starts_with(start)) << loaded.error().message;
  return loaded.error().message.substr(start.size());
}

OptimizerStateDict::Setting& setting(OptimizerStateDict& dict, const std::string& name) {
  for (auto& [key, value] : dict.param_groups[0].settings)
    if (key == name) return value;
  ADD_FAILURE() << name;
  return dict.param_groups[0].settings[0].second;
}

TEST(OptimizerStateDict, RatesAndSettingsAreTakenOver) {
  const auto p = matrix_and_bias();
  const Adam from =
      updated(Adam(p, {.lr = 0.5, .beta1 = 0.25, .eps = 1e-3, .weight_decay = 0.125}));
  Adam to(matrix_and_bias(), {});
  EXPECT_EQ(load(to, from.state_dict()), "");
  EXPECT_EQ(to.settings(), from.settings());
  EXPECT_EQ(to.lr(), 0.5);

  const SGDOptions options{.lr = 0.5, .momentum = 0.25, .weight_decay = 1, .nesterov = true};
  SGD sgd(matrix_and_bias(), {.momentum = 0.9, .dampening = 0.5});
  EXPECT_EQ(load(sgd, SGD(p, options).state_dict()), "");
  EXPECT_EQ(sgd.settings(), SGD(p, options).settings());
}

TEST(OptimizerStateDict, TensorsKeepTheirAddressAndWhatTheFileLacksBeginsAnew) {
  AdamW to = updated(AdamW(matrix_and_bias(), {}));
  const NamedTensors before = to.state();
  EXPECT_EQ(load(to, AdamW(matrix_and_bias(), {}).state_dict()), "");
  EXPECT_TRUE(to.state_dict().state.empty());
  const NamedTensors after = to.state();
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(before[i].second.is_same(after[i].second)) << before[i].first;
  EXPECT_TRUE(at::equal(after[2].second, at::zeros({2, 3})));  // 0.exp_avg
}

// Numbers of parameters are the file's own; one that was given twice has the same number twice.
TEST(OptimizerStateDict, ParametersAreMatchedByTheirOrder) {
  const Adam from = updated(Adam(matrix_and_bias(), {}));
  OptimizerStateDict dict = from.state_dict();
  dict.param_groups[0].params = {17, 17, 4};
  dict.state[0].first = 17;
  Adam to(matrix_and_bias(), {});
  EXPECT_EQ(load(to, dict), "");
  ASSERT_EQ(to.state_dict().state.size(), 1U);
  EXPECT_EQ(to.state_dict().state[0].first, 0);
}

TEST(OptimizerStateDict, OtherGroupsAreNamed) {
  const auto p = matrix_and_bias();
  Adam one(p, {}), two({{{p[0]}, {}}, {{p[1]}, {}}}),
      turned({{{p[0], p[1]}, {}}, {{at::zeros(1)}, {}}});
  EXPECT_EQ(load(one, two.state_dict()), "2 param_groups, here 1");
  EXPECT_EQ(load(two, turned.state_dict()), "param_groups[0] has 2 parameters, here 1");
  OptimizerStateDict dict = updated(Adam(p, {})).state_dict();
  dict.state[0].first = 5;
  EXPECT_EQ(load(one, dict), "its state has parameter 5, no group has it");
}

TEST(OptimizerStateDict, SettingsThatDoNotFitAreNamed) {
  const auto p = matrix_and_bias();
  Adam adam(p, {});
  EXPECT_EQ(load(adam, AdamW(p, {}).state_dict()),
            "param_groups[0] has decoupled_weight_decay True, here it is False");
  EXPECT_EQ(load(adam, Adam(p, {.amsgrad = true}).state_dict()),
            "param_groups[0] has amsgrad True, here it is False");
  EXPECT_EQ(load(adam, SGD(p, {}).state_dict()),
            "param_groups[0] has no 'betas'; is it of another kind of optimizer?");
  SGD sgd(p, {});
  EXPECT_EQ(load(sgd, SGD(p, {.momentum = 0.9}).state_dict()),
            "param_groups[0] has momentum 0.9, here it is 0: make the optimizer with it");
  OptimizerStateDict dict = adam.state_dict();
  setting(dict, "maximize") = true;
  EXPECT_EQ(load(adam, dict), "param_groups[0] has maximize True, here it is False");
  dict = adam.state_dict();
  setting(dict, "betas") = std::vector{0.9};
  EXPECT_EQ(load(adam, dict), "param_groups[0] has 1 numbers as 'betas', not 2");
  setting(dict, "betas") = 0.9;
  EXPECT_EQ(load(adam, dict), "param_groups[0]: 'betas' is not two numbers");
  // As files of early versions: there was no such flag.
  dict = adam.state_dict();
  std::erase_if(dict.param_groups[0].settings,
                [](const auto& item) { return std::holds_alternative<bool>(item.second); });
  EXPECT_EQ(load(adam, dict), "");
}

TEST(OptimizerStateDict, TensorsThatDoNotFitAreNamed) {
  const auto p = matrix_and_bias();
  Adam adam(p, {});
  const OptimizerStateDict good = updated(Adam(p, {})).state_dict();
  const auto with = [&](std::size_t index, const char* name, const at::Tensor& tensor) {
    OptimizerStateDict dict = good;
    dict.state[0].second[index] = {name, tensor};
    return load(adam, dict);
  };
  EXPECT_EQ(with(1, "exp_avg", at::zeros({3, 2})),
            "parameter 0: 'exp_avg' is Float [3, 2], here Float [2, 3]");
  EXPECT_EQ(with(1, "exp_avg", at::zeros({2, 3}, at::kDouble)),
            "parameter 0: 'exp_avg' is Double [2, 3], here Float [2, 3]");
  EXPECT_EQ(with(1, "exp_avg", {}), "parameter 0: 'exp_avg' is undefined, here Float [2, 3]");
  EXPECT_EQ(with(1, "mean", at::zeros({2, 3})), "parameter 0 has no 'exp_avg'");
  EXPECT_EQ(with(0, "steps", at::zeros({})), "parameter 0 has 'steps', which is not known here");
  EXPECT_EQ(with(0, "step", at::zeros({2})), "parameter 0: 'step' is Float [2], not a number");
  EXPECT_EQ(with(0, "step", at::scalar_tensor(0.5)), "parameter 0: 'step' is 0.5, not a count");
  EXPECT_EQ(with(0, "step", at::scalar_tensor(-1)), "parameter 0: 'step' is -1, not a count");
  EXPECT_EQ(with(0, "step", at::scalar_tensor(NAN)), "parameter 0: 'step' is nan, not a count");
  EXPECT_EQ(with(0, "step", at::scalar_tensor(3, at::kLong)), "");
  OptimizerStateDict dict = good;
  dict.state[0].second.erase(dict.state[0].second.begin());
  EXPECT_EQ(load(adam, dict), "parameter 0 has no 'step'");
}

TEST(OptimizerStateDict, AKindOfOnesOwnHasNone) {
  struct Own : Optimizer {
    Own() : Optimizer({{at::zeros(1)}}, {0.1}) {}
    void step() override {}
  } own;
  EXPECT_TRUE(own.state_dict().param_groups.empty());
  EXPECT_EQ(own.load_state_dict({}).error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace lockstep
