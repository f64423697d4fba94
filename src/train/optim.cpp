#include "lockstep/optim.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace lockstep {
namespace {

// PyTorch's checks let NaN and infinity pass.
Status at_least_0(const char* name, double value) {
  if (std::isfinite(value) && value >= 0) return {};
  return Error{ErrorKind::kUsage, std::string("Invalid ") + name + ": " + shortest(value) +
                                      "; a finite number, at least 0"};
}

Status check_beta(int index, double value) {
  if (value >= 0 && value < 1) return {};
  return Error{ErrorKind::kUsage, "Invalid beta parameter at index " + std::to_string(index) +
                                      ": " + shortest(value) + "; at least 0, below 1"};
}

std::vector<at::Tensor> without_repeats(std::vector<at::Tensor> parameters) {
  std::vector<at::Tensor> once;
  for (at::Tensor& p : parameters)
    if (std::ranges::none_of(once, [&](const at::Tensor& seen) { return seen.is_same(p); }))
      once.push_back(std::move(p));
  return once;
}

at::Tensor counters(std::size_t count) {
  return at::zeros({static_cast<std::int64_t>(count)}, at::kLong);
}

std::vector<at::Tensor> zeros_for(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> state;
  for (const at::Tensor& p : parameters) state.push_back(at::zeros_like(p.detach()));
  return state;
}

void append(std::vector<std::pair<std::string, at::Tensor>>& state, const char* name,
            const std::vector<at::Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    state.emplace_back(std::to_string(i) + "." + name, tensors[i]);
}

}  // namespace

Optimizer::Optimizer(std::vector<at::Tensor> parameters, double lr)
    : parameters_(without_repeats(std::move(parameters))),
      lr_(at::scalar_tensor(lr, at::kDouble)) {}

double Optimizer::lr() const { return *lr_.const_data_ptr<double>(); }
void Optimizer::set_lr(double lr) { *lr_.mutable_data_ptr<double>() = lr; }

std::vector<std::pair<std::string, at::Tensor>> Optimizer::state() { return {{"lr", lr_}}; }

std::string Optimizer::settings() const { return "lr=" + shortest(lr()); }

Status Optimizer::check() const { return at_least_0("learning rate", lr()); }

void Optimizer::zero_grad() {
  for (at::Tensor& p : parameters_) p.mutable_grad().reset();
}

SGD::SGD(std::vector<at::Tensor> parameters, SGDOptions options)
    : Optimizer(std::move(parameters), options.lr),
      options_(options),
      steps_(counters(parameters_.size())) {
  if (options_.momentum != 0) momentum_ = zeros_for(parameters_);
}

// torch/optim/sgd.py, _single_tensor_sgd; as ATen calls in the notes on bit equality
// (docs/design/arithmetic.md).
void SGD::step() {
  const at::NoGradGuard no_grad;
  auto* const steps = steps_.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& p = parameters_[i];
    if (!p.grad().defined()) continue;
    at::Tensor g = p.grad();
    if (options_.weight_decay != 0) g = g.add(p, options_.weight_decay);
    if (options_.momentum != 0) {
      at::Tensor& buffer = momentum_[i];
      if (steps[i] == 0)
        buffer.copy_(g);
      else
        buffer.mul_(options_.momentum).add_(g, 1 - options_.dampening);
      g = options_.nesterov ? g.add(buffer, options_.momentum) : buffer;
    }
    p.add_(g, -lr());
    ++steps[i];
  }
}

std::string SGD::settings() const {
  return "SGD " + Optimizer::settings() + " momentum=" + shortest(options_.momentum) +
         " dampening=" + shortest(options_.dampening) +
         " weight_decay=" + shortest(options_.weight_decay) +
         " nesterov=" + shortest(int{options_.nesterov});
}

Status SGD::check() const {
  LOCKSTEP_TRY(Optimizer::check());
  LOCKSTEP_TRY(at_least_0("momentum value", options_.momentum));
  LOCKSTEP_TRY(at_least_0("weight_decay value", options_.weight_decay));
  if (options_.nesterov && (options_.momentum == 0 || options_.dampening != 0))
    return Error{ErrorKind::kUsage, "Nesterov momentum requires a momentum and zero dampening"};
  if (std::isfinite(options_.dampening)) return {};
  return Error{ErrorKind::kUsage, "Invalid dampening value: " + shortest(options_.dampening)};
}

std::vector<std::pair<std::string, at::Tensor>> SGD::state() {
  auto state = Optimizer::state();
  state.emplace_back("step", steps_);
  append(state, "momentum_buffer", momentum_);
  return state;
}

Adam::Adam(std::vector<at::Tensor> parameters, AdamOptions options)
    : Optimizer(std::move(parameters), options.lr),
      options_(options),
      exp_avg_(zeros_for(parameters_)),
      exp_avg_sq_(zeros_for(parameters_)),
      steps_(counters(parameters_.size())) {
  if (options_.amsgrad) max_exp_avg_sq_ = zeros_for(parameters_);
}

void Adam::step() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].grad().defined()) update(i);
}

// torch/optim/adam.py, _single_tensor_adam (Kingma & Ba, arXiv 1412.6980).
void Adam::update(std::size_t i) {
  const auto t = static_cast<double>(++steps_.mutable_data_ptr<std::int64_t>()[i]);
  at::Tensor& p = parameters_[i];
  at::Tensor g = p.grad();
  if (options_.weight_decay != 0) g = g.add(p, options_.weight_decay);
  at::Tensor& m = exp_avg_[i];
  at::Tensor& v = exp_avg_sq_[i];
  m.lerp_(g, 1 - options_.beta1);
  v.mul_(options_.beta2).addcmul_(g, g, 1 - options_.beta2);
  const double correction1 = 1 - std::pow(options_.beta1, t);
  const double correction2 = 1 - std::pow(options_.beta2, t);
  if (options_.amsgrad) at::maximum_out(max_exp_avg_sq_[i], max_exp_avg_sq_[i], v);
  const at::Tensor& second = options_.amsgrad ? max_exp_avg_sq_[i] : v;
  const at::Tensor denominator = (second.sqrt() / std::pow(correction2, 0.5)).add_(options_.eps);
  p.addcdiv_(m, denominator, -(lr() / correction1));
}

std::string Adam::settings() const {
  return "Adam " + Optimizer::settings() + " betas=" + shortest(options_.beta1) + "," +
         shortest(options_.beta2) + " eps=" + shortest(options_.eps) +
         " weight_decay=" + shortest(options_.weight_decay) +
         " amsgrad=" + shortest(int{options_.amsgrad});
}

Status Adam::check() const {
  LOCKSTEP_TRY(Optimizer::check());
  LOCKSTEP_TRY(at_least_0("epsilon value", options_.eps));
  LOCKSTEP_TRY(check_beta(0, options_.beta1));
  LOCKSTEP_TRY(check_beta(1, options_.beta2));
  return at_least_0("weight_decay value", options_.weight_decay);
}

std::vector<std::pair<std::string, at::Tensor>> Adam::state() {
  auto state = Optimizer::state();
  state.emplace_back("step", steps_);
  append(state, "exp_avg", exp_avg_);
  append(state, "exp_avg_sq", exp_avg_sq_);
  append(state, "max_exp_avg_sq", max_exp_avg_sq_);
  return state;
}

}  // namespace lockstep
