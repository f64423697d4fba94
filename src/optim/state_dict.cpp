// torch.optim's state_dict() and load_state_dict() (torch/optim/optimizer.py, sgd.py, adam.py).
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "base/text.h"
#include "lockstep/optim.h"

namespace lockstep {
namespace {

using Setting = OptimizerStateDict::Setting;
using Settings = OptimizerStateDict::Settings;

constexpr const char* kStep = "step";

Error other(const std::string& what) {
  return Error{ErrorKind::kBadData, "the state_dict is not of this optimizer: " + what};
}

std::string text_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  std::ostringstream text;
  text << tensor.scalar_type() << ' ' << tensor.sizes();
  return text.str();
}

std::string text_of(bool flag) { return flag ? "True" : "False"; }

const at::Tensor* find(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [key, tensor] : tensors)
    if (key == name) return &tensor;
  return nullptr;
}

// A group's settings as they are asked for. The first that does not fit is told by status().
class Given {
 public:
  Given(const OptimizerStateDict& dict, std::size_t group)
      : settings_(dict.param_groups[group].settings),
        where_("param_groups[" + std::to_string(group) + "]") {}

  double number(const char* name) {
    const auto* const value = get<double>(name, "a number");
    return value == nullptr ? 0 : *value;
  }
  double of_two(const char* name, std::size_t index) {
    const auto* const value = get<std::vector<double>>(name, "two numbers");
    if (value == nullptr) return 0;
    if (value->size() == 2) return (*value)[index];
    refuse(where_ + " has " + std::to_string(value->size()) + " numbers as '" + name + "', not 2");
    return 0;
  }
  // Files of before a flag was there do not have it.
  bool flag(const char* name, bool absent) {
    if (find_setting(name) == nullptr) return absent;
    const auto* const value = get<bool>(name, "True or False");
    return value == nullptr ? absent : *value;
  }
  void expect_flag(const char* name, bool own) {
    if (flag(name, own) == own) return;
    refuse(where_ + " has " + name + " " + text_of(!own) + ", here it is " + text_of(own));
  }
  // Whether there is a buffer for it is settled when an optimizer is made.
  void expect_both_or_none(const char* name, double own) {
    const double given = number(name);
    if ((given == 0) == (own == 0)) return;
    refuse(where_ + " has " + name + " " + shortest(given) + ", here it is " + shortest(own) +
           ": make the optimizer with it");
  }
  Status status() const {
    if (!wrong_.empty()) return other(wrong_);
    return {};
  }

 private:
  const Setting* find_setting(const std::string& name) const {
    const auto found =
        std::ranges::find_if(settings_, [&](const auto& item) { return item.first == name; });
    return found == settings_.end() ? nullptr : &found->second;
  }
  template <class T>
  const T* get(const char* name, const char* kind) {
    const Setting* const setting = find_setting(name);
    const T* const value = setting == nullptr ? nullptr : std::get_if<T>(setting);
    if (setting == nullptr)
      refuse(where_ + " has no '" + name + "'; is it of another kind of optimizer?");
    else if (value == nullptr)
      refuse(where_ + ": '" + name + "' is not " + kind);
    return value;
  }
  void refuse(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }

  const Settings& settings_;
  const std::string where_;
  std::string wrong_;
};

// Tensors of a state, apart from "step", are the optimizer's own, name by name.
Status check_tensors(std::size_t parameter, const NamedTensors& own, const NamedTensors& given) {
  const std::string where = "parameter " + std::to_string(parameter);
  for (const auto& [name, tensor] : own) {
    const at::Tensor* const theirs = find(given, name);
    if (theirs == nullptr) return other(where + " has no '" + name + "'");
    if (theirs->defined() && theirs->sizes() == tensor.sizes() &&
        theirs->scalar_type() == tensor.scalar_type())
      continue;
    return other(where + ": '" + name + "' is " + text_of(*theirs) + ", here " + text_of(tensor));
  }
  for (const auto& [name, tensor] : given)
    if (name != kStep && find(own, name) == nullptr)
      return other(where + " has '" + name + "', which is not known here");
  return {};
}

void copy(const NamedTensors& own, const NamedTensors* given) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own) {
    if (given == nullptr)
      at::Tensor(tensor).zero_();
    else
      at::Tensor(tensor).copy_(*find(*given, name));
  }
}

// Python counts in float32, early files in whole numbers.
Result<std::int64_t> step_in(std::size_t parameter, const NamedTensors& given) {
  constexpr double kMost = 9007199254740992;  // 2^53
  const std::string where = "parameter " + std::to_string(parameter);
  const at::Tensor* const step = find(given, kStep);
  if (step == nullptr || !step->defined()) return other(where + " has no 'step'");
  if (step->numel() != 1 || step->is_complex())
    return other(where + ": 'step' is " + text_of(*step) + ", not a number");
  const auto number = step->item<double>();
  if (number >= 0 && number <= kMost && number == std::floor(number))
    return static_cast<std::int64_t>(number);
  return other(where + ": 'step' is " + shortest(number) + ", not a count");
}

Settings settings_of(const SGDOptions& o, double lr) {
  return {{"lr", lr},
          {"momentum", o.momentum},
          {"dampening", o.dampening},
          {"weight_decay", o.weight_decay},
          {"nesterov", o.nesterov},
          {"maximize", false},
          {"foreach", {}},
          {"differentiable", false},
          {"fused", {}}};
}

Settings settings_of(const AdamOptions& o, double lr) {
  return {{"lr", lr},
          {"betas", std::vector{o.beta1, o.beta2}},
          {"eps", o.eps},
          {"weight_decay", o.weight_decay},
          {"amsgrad", o.amsgrad},
          {"maximize", false},
          {"foreach", {}},
          {"capturable", false},
          {"differentiable", false},
          {"fused", {}},
          {"decoupled_weight_decay", o.decoupled_weight_decay}};
}

Result<SGDOptions> options_from(Given given, const SGDOptions& own) {
  given.expect_both_or_none("momentum", own.momentum);
  given.expect_flag("maximize", false);
  const SGDOptions options{.lr = given.number("lr"),
                           .momentum = given.number("momentum"),
                           .dampening = given.number("dampening"),
                           .weight_decay = given.number("weight_decay"),
                           .nesterov = given.flag("nesterov", false)};
  LOCKSTEP_TRY(given.status());
  return options;
}

Result<AdamOptions> options_from(Given given, const AdamOptions& own) {
  const AdamOptions options{.lr = given.number("lr"),
                            .beta1 = given.of_two("betas", 0),
                            .beta2 = given.of_two("betas", 1),
                            .eps = given.number("eps"),
                            .weight_decay = given.number("weight_decay"),
                            .amsgrad = own.amsgrad,
                            .decoupled_weight_decay = own.decoupled_weight_decay};
  given.expect_flag("amsgrad", own.amsgrad);
  given.expect_flag("maximize", false);
  given.expect_flag("decoupled_weight_decay", own.decoupled_weight_decay);
  LOCKSTEP_TRY(given.status());
  return options;
}

template <class Options>
Result<std::vector<Options>> all_options(const OptimizerStateDict& given,
                                         const std::vector<Options>& own) {
  std::vector<Options> options;
  for (std::size_t g = 0; g < own.size(); ++g) {
    LOCKSTEP_ASSIGN(Options of_group, options_from(Given(given, g), own[g]));
    options.push_back(of_group);
  }
  return options;
}

}  // namespace

OptimizerStateDict Optimizer::state_dict() const { return {}; }

Status Optimizer::load_state_dict(const OptimizerStateDict& /*given*/) {
  return Error{ErrorKind::kUsage,
               "this kind of optimizer has no load_state_dict(): lockstep::SGD, Adam and AdamW do"};
}

std::vector<OptimizerStateDict::Group> Optimizer::numbered_groups() const {
  std::vector<OptimizerStateDict::Group> numbered(groups());
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    numbered[group_of_[i]].params.push_back(static_cast<std::int64_t>(i));
  return numbered;
}

Result<std::vector<const NamedTensors*>> Optimizer::matched(const OptimizerStateDict& given) const {
  if (given.param_groups.size() != groups())
    return other(std::to_string(given.param_groups.size()) + " param_groups, here " +
                 std::to_string(groups()));
  std::map<std::int64_t, const NamedTensors*> by_number;
  for (const auto& [number, tensors] : given.state) by_number[number] = &tensors;
  std::vector<const NamedTensors*> matched;
  std::set<std::int64_t> seen;  // Python repeats the number of a parameter that it was given twice
  for (std::size_t g = 0; g < groups(); ++g) {
    const std::size_t before = matched.size();
    for (const std::int64_t number : given.param_groups[g].params) {
      if (!seen.insert(number).second) continue;
      const auto found = by_number.find(number);
      const bool has = found != by_number.end() && !found->second->empty();
      matched.push_back(has ? found->second : nullptr);
    }
    const auto own = static_cast<std::size_t>(std::ranges::count(group_of_, g));
    if (matched.size() - before != own)
      return other("param_groups[" + std::to_string(g) + "] has " +
                   std::to_string(matched.size() - before) + " parameters, here " +
                   std::to_string(own));
  }
  for (const auto& [number, tensors] : by_number)
    if (!seen.contains(number))
      return other("its state has parameter " + std::to_string(number) + ", no group has it");
  return matched;
}

NamedTensors SGD::state_of(std::size_t parameter) const {
  if (!momentum_[parameter].defined()) return {};
  return {{"momentum_buffer", momentum_[parameter]}};
}

OptimizerStateDict SGD::state_dict() const {
  OptimizerStateDict dict{{}, numbered_groups()};
  for (std::size_t g = 0; g < groups(); ++g)
    dict.param_groups[g].settings = settings_of(options_[g], lr(g));
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (momentum_[i].defined() && steps_.const_data_ptr<std::int64_t>()[i] > 0)
      dict.state.emplace_back(i, state_of(i));
  return dict;
}

Status SGD::load_state_dict(const OptimizerStateDict& given) {
  LOCKSTEP_ASSIGN(const std::vector<const NamedTensors*> state, matched(given));
  LOCKSTEP_ASSIGN(std::vector<SGDOptions> options, all_options(given, options_));
  for (std::size_t i = 0; i < state.size(); ++i)
    if (state[i] != nullptr) LOCKSTEP_TRY(check_tensors(i, state_of(i), *state[i]));
  for (std::size_t i = 0; i < state.size(); ++i) {
    copy(state_of(i), state[i]);
    steps_.mutable_data_ptr<std::int64_t>()[i] = state[i] == nullptr ? 0 : 1;
  }
  for (std::size_t g = 0; g < groups(); ++g) set_lr(g, options[g].lr);
  options_ = std::move(options);
  return {};
}

NamedTensors Adam::state_of(std::size_t parameter) const {
  NamedTensors state{{"exp_avg", exp_avg_[parameter]}, {"exp_avg_sq", exp_avg_sq_[parameter]}};
  const at::Tensor& most = max_exp_avg_sq_[parameter];
  if (most.defined()) state.emplace_back("max_exp_avg_sq", most);
  return state;
}

OptimizerStateDict Adam::state_dict() const {
  OptimizerStateDict dict{{}, numbered_groups()};
  for (std::size_t g = 0; g < groups(); ++g)
    dict.param_groups[g].settings = settings_of(options_[g], lr(g));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::int64_t steps = steps_.const_data_ptr<std::int64_t>()[i];
    if (steps == 0) continue;
    NamedTensors state = state_of(i);
    state.emplace(state.begin(), kStep, at::scalar_tensor(static_cast<double>(steps), at::kFloat));
    dict.state.emplace_back(i, std::move(state));
  }
  return dict;
}

Status Adam::load_state_dict(const OptimizerStateDict& given) {
  LOCKSTEP_ASSIGN(const std::vector<const NamedTensors*> state, matched(given));
  LOCKSTEP_ASSIGN(std::vector<AdamOptions> options, all_options(given, options_));
  std::vector<std::int64_t> steps(state.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    if (state[i] == nullptr) continue;
    LOCKSTEP_TRY(check_tensors(i, state_of(i), *state[i]));
    LOCKSTEP_ASSIGN(steps[i], step_in(i, *state[i]));
  }
  for (std::size_t i = 0; i < state.size(); ++i) {
    copy(state_of(i), state[i]);
    steps_.mutable_data_ptr<std::int64_t>()[i] = steps[i];
  }
  for (std::size_t g = 0; g < groups(); ++g) set_lr(g, options[g].lr);
  options_ = std::move(options);
  return {};
}

}  // namespace lockstep
