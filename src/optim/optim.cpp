#include "lockstep/optim.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/ScalarOps.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <tuple>

#include "base/hash.h"
#include "base/text.h"
#include "optim/closure.h"
#include "optim/grad_norm.h"
#include "optim/tensor_bytes.h"

namespace lockstep {
namespace {

constexpr const char* kRunsOwn = "step.run() does it; leave it out";

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

at::Tensor counters(std::size_t count) {
  return at::zeros({static_cast<std::int64_t>(count)}, at::kLong);
}

at::Tensor zeros_for(const at::Tensor& parameter) { return at::zeros_like(parameter.detach()); }

void append(NamedTensors& state, const char* name, const std::vector<at::Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].defined()) state.emplace_back(std::to_string(i) + "." + name, tensors[i]);
}

// Python's t.mul_(number): the kernel has the number in fp32 where t is half. Tensor::mul_(Scalar)
// puts it first, and there it is rounded to half.
at::Tensor& multiply(at::Tensor& t, double number) {
  return t.mul_(at::native::wrapped_scalar_tensor(number));
}

// Elements of a piece: five tensors of fp32 stay in a core's own cache from one call to the next.
// Also the least that ATen gives a thread (at::internal::GRAIN_SIZE).
constexpr std::int64_t kPiece = std::int64_t{1} << 15;

// Whether all have one dtype, and element i lies at place i of the memory of each.
bool lie_alike(std::initializer_list<at::Tensor> tensors) {
  const at::Tensor& first = *tensors.begin();
  return std::ranges::all_of(tensors, [&](const at::Tensor& t) {
    return t.is_non_overlapping_and_dense() && t.scalar_type() == first.scalar_type() &&
           t.sizes() == first.sizes() && t.strides() == first.strides();
  });
}

// An update is several calls of ATen, element by element. Here all of them are done for a piece
// before the next one: a large parameter goes through the memory once, not once a call. The bits
// are those of whole calls in fp32, wherever a piece ends; in half types ATen rounds the last few
// elements of a loop otherwise than the others, so they are not divided.
template <class Update, class... Tensors>
void by_pieces(const Update& update, const Tensors&... whole) {
  const at::Tensor& first = std::get<0>(std::tie(whole...));
  if (first.scalar_type() != at::kFloat || first.numel() <= kPiece || !lie_alike({whole...}))
    return update(whole...);
  at::parallel_for(0, first.numel(), kPiece, [&](auto begin, auto end) {
    const at::NoGradGuard no_grad;
    for (std::int64_t at = begin; at < end; at += kPiece) {
      const auto piece = [&](const at::Tensor& t) {
        return t.as_strided({std::min(kPiece, end - at)}, {1}, t.storage_offset() + at);
      };
      update(piece(whole)...);
    }
  });
}

template <class Options>
std::vector<std::vector<at::Tensor>> parameters_of(const std::vector<ParamGroup<Options>>& groups) {
  std::vector<std::vector<at::Tensor>> parameters;
  for (const auto& group : groups) parameters.push_back(group.parameters);
  return parameters;
}

template <class Options>
std::vector<double> rates_of(const std::vector<ParamGroup<Options>>& groups) {
  std::vector<double> rates;
  for (const auto& group : groups) rates.push_back(group.options.lr);
  return rates;
}

template <class Options>
std::vector<Options> options_of(const std::vector<ParamGroup<Options>>& groups) {
  std::vector<Options> options;
  for (const auto& group : groups) options.push_back(group.options);
  return options;
}

AdamOptions decoupled(const AdamWOptions& o) {
  return {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.amsgrad, true};
}

std::vector<ParamGroup<AdamOptions>> decoupled(
    const std::vector<ParamGroup<AdamWOptions>>& groups) {
  std::vector<ParamGroup<AdamOptions>> all;
  for (const auto& group : groups) all.push_back({group.parameters, decoupled(group.options)});
  return all;
}

}  // namespace

Optimizer::Optimizer(const std::vector<std::vector<at::Tensor>>& groups,
                     const std::vector<double>& rates)
    : lr_(at::tensor(rates, at::kDouble)) {
  for (std::size_t group = 0; group < groups.size(); ++group)
    for (const at::Tensor& p : groups[group]) {
      const auto seen = std::ranges::find_if(parameters_, [&](auto& q) { return q.is_same(p); });
      if (seen == parameters_.end()) {
        parameters_.push_back(p);
        group_of_.push_back(group);
      } else if (group_of_[static_cast<std::size_t>(seen - parameters_.begin())] != group) {
        wrong_groups_ = "some parameters appear in more than one parameter group";
      }
    }
  if (parameters_.empty()) wrong_groups_ = "optimizer got an empty parameter list";
}

double Optimizer::lr(std::size_t group) const { return lr_.const_data_ptr<double>()[group]; }
void Optimizer::set_lr(std::size_t group, double lr) { lr_.mutable_data_ptr<double>()[group] = lr; }
void Optimizer::set_lr(double lr) {
  for (std::size_t group = 0; group < groups(); ++group) set_lr(group, lr);
}

std::vector<double> Optimizer::rates() const {
  const double* const first = lr_.const_data_ptr<double>();
  return {first, first + groups()};
}

std::uint64_t Optimizer::rates_hash() const { return xxh3(optim::bytes_of(lr_)); }

NamedTensors Optimizer::state() { return {{"lr", lr_}}; }

void Optimizer::reset_state() {
  optim::refuse_in_closure("an optimizer's reset_state()",
                           "it stands between next() and run(), at a step");
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : state())
    if (!tensor.is_same(lr_)) tensor.zero_();
}

std::string Optimizer::settings() const {
  std::string rates = "lr=";
  for (std::size_t g = 0; g < groups(); ++g) rates += (g == 0 ? "" : ",") + shortest(lr(g));
  if (groups() == 1) return rates;
  std::string sizes = " groups=";
  for (std::size_t g = 0; g < groups(); ++g)
    sizes += (g == 0 ? "" : ",") + std::to_string(std::ranges::count(group_of_, g));
  return rates + sizes;
}

Status Optimizer::check() const {
  if (!wrong_groups_.empty()) return Error{ErrorKind::kUsage, wrong_groups_};
  for (std::size_t g = 0; g < groups(); ++g) LOCKSTEP_TRY(at_least_0("learning rate", lr(g)));
  return {};
}

void Optimizer::zero_grad() {
  optim::refuse_in_closure("zero_grad()", kRunsOwn);
  for (at::Tensor& p : parameters_) p.mutable_grad().reset();
}

at::Tensor optim::total_norm(const std::vector<at::Tensor>& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<std::pair<at::ScalarType, std::vector<at::Tensor>>> norms;
  for (const at::Tensor& p : parameters) {
    if (!p.grad().defined()) continue;
    const auto known =
        std::ranges::find(norms, p.grad().scalar_type(), [](auto& n) { return n.first; });
    auto& of_dtype =
        known != norms.end()
            ? known->second
            : norms.emplace_back(p.grad().scalar_type(), std::vector<at::Tensor>()).second;
    of_dtype.push_back(at::linalg_vector_norm(p.grad(), 2.0));
  }
  if (norms.empty()) return {};
  std::vector<at::Tensor> all;
  for (const auto& [dtype, of_dtype] : norms)
    all.insert(all.end(), of_dtype.begin(), of_dtype.end());
  return at::linalg_vector_norm(at::stack(all), 2.0);
}

double clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm) {
  optim::refuse_in_closure("clip_grad_norm_()", "set RunOptions::clip_grad_norm");
  const at::NoGradGuard no_grad;
  const at::Tensor norm = optim::total_norm(parameters);
  if (!norm.defined()) return 0;
  // A number over a tensor is the tensor's reciprocal times the number in Python.
  at::Tensor reciprocal = (norm + 1e-6).reciprocal();
  const at::Tensor factor = at::clamp_max(multiply(reciprocal, max_norm), 1.0);
  for (const at::Tensor& p : parameters)
    if (p.grad().defined()) p.mutable_grad() = p.grad().mul(factor);
  return norm.item<double>();
}

SGD::SGD(std::vector<at::Tensor> parameters, SGDOptions options)
    : SGD(std::vector<ParamGroup<SGDOptions>>{{std::move(parameters), options}}) {}

SGD::SGD(const std::vector<ParamGroup<SGDOptions>>& groups)
    : Optimizer(parameters_of(groups), rates_of(groups)),
      options_(options_of(groups)),
      momentum_(parameters_.size()),
      steps_(counters(parameters_.size())) {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (options_[group_of(i)].momentum != 0) momentum_[i] = zeros_for(parameters_[i]);
}

void SGD::step() {
  optim::refuse_in_closure("an optimizer's step()", kRunsOwn);
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].grad().defined()) update(i);
}

// torch/optim/sgd.py, _single_tensor_sgd; as ATen calls in the notes on bit equality
// (docs/design/arithmetic.md).
void SGD::update(std::size_t i) {
  const SGDOptions& options = options_[group_of(i)];
  std::int64_t& steps = steps_.mutable_data_ptr<std::int64_t>()[i];
  const at::Tensor& p = parameters_[i];
  const bool has_momentum = options.momentum != 0;
  const auto update_piece = [&](const at::Tensor& w, at::Tensor grad, at::Tensor buffer) {
    if (options.weight_decay != 0) grad = grad.add(w, options.weight_decay);
    if (has_momentum) {
      if (steps == 0)
        buffer.copy_(grad);
      else
        multiply(buffer, options.momentum).add_(grad, 1 - options.dampening);
      grad = options.nesterov ? grad.add(buffer, options.momentum) : buffer;
    }
    w.add_(grad, -lr(group_of(i)));
  };
  if (has_momentum)
    by_pieces(update_piece, p, p.grad(), momentum_[i]);
  else
    update_piece(p, p.grad(), {});
  ++steps;
}

std::string SGD::settings() const {
  std::string text = "SGD " + Optimizer::settings();
  for (const SGDOptions& o : options_)
    text += " momentum=" + shortest(o.momentum) + " dampening=" + shortest(o.dampening) +
            " weight_decay=" + shortest(o.weight_decay) + " nesterov=" + shortest(int{o.nesterov});
  return text;
}

Status SGD::check() const {
  LOCKSTEP_TRY(Optimizer::check());
  for (const SGDOptions& o : options_) {
    LOCKSTEP_TRY(at_least_0("momentum value", o.momentum));
    LOCKSTEP_TRY(at_least_0("weight_decay value", o.weight_decay));
    if (o.nesterov && (o.momentum == 0 || o.dampening != 0))
      return Error{ErrorKind::kUsage, "Nesterov momentum requires a momentum and zero dampening"};
    if (!std::isfinite(o.dampening))
      return Error{ErrorKind::kUsage, "Invalid dampening value: " + shortest(o.dampening)};
  }
  return {};
}

NamedTensors SGD::state() {
  auto state = Optimizer::state();
  state.emplace_back("step", steps_);
  append(state, "momentum_buffer", momentum_);
  return state;
}

Adam::Adam(std::vector<at::Tensor> parameters, AdamOptions options)
    : Adam(std::vector<ParamGroup<AdamOptions>>{{std::move(parameters), options}}) {}

Adam::Adam(const std::vector<ParamGroup<AdamOptions>>& groups)
    : Optimizer(parameters_of(groups), rates_of(groups)),
      options_(options_of(groups)),
      max_exp_avg_sq_(parameters_.size()),
      steps_(counters(parameters_.size())) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    exp_avg_.push_back(zeros_for(parameters_[i]));
    exp_avg_sq_.push_back(zeros_for(parameters_[i]));
    if (options_[group_of(i)].amsgrad) max_exp_avg_sq_[i] = zeros_for(parameters_[i]);
  }
}

void Adam::step() {
  optim::refuse_in_closure("an optimizer's step()", kRunsOwn);
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].grad().defined()) update(i);
}

// torch/optim/adam.py, _single_tensor_adam (Kingma & Ba, arXiv 1412.6980).
void Adam::update(std::size_t i) {
  const AdamOptions& options = options_[group_of(i)];
  const double rate = lr(group_of(i));
  const auto t = static_cast<double>(++steps_.mutable_data_ptr<std::int64_t>()[i]);
  const double correction1 = 1 - std::pow(options.beta1, t);
  const double correction2 = 1 - std::pow(options.beta2, t);
  const auto update_piece = [&](at::Tensor p, at::Tensor g, at::Tensor m, at::Tensor v,
                                at::Tensor most) {
    if (options.weight_decay != 0 && options.decoupled_weight_decay)
      multiply(p, 1 - rate * options.weight_decay);
    else if (options.weight_decay != 0)
      g = g.add(p, options.weight_decay);
    m.lerp_(g, 1 - options.beta1);
    multiply(v, options.beta2).addcmul_(g, g, 1 - options.beta2);
    if (options.amsgrad) at::maximum_out(most, most, v);
    const at::Tensor& second = options.amsgrad ? most : v;
    const at::Tensor denominator = (second.sqrt() / std::pow(correction2, 0.5)).add_(options.eps);
    p.addcdiv_(m, denominator, -(rate / correction1));
  };
  const at::Tensor& p = parameters_[i];
  by_pieces(update_piece, p, p.grad(), exp_avg_[i], exp_avg_sq_[i],
            options.amsgrad ? max_exp_avg_sq_[i] : exp_avg_sq_[i]);
}

std::string Adam::settings() const {
  const bool decoupled = !options_.empty() && options_.front().decoupled_weight_decay;
  std::string text = (decoupled ? "AdamW " : "Adam ") + Optimizer::settings();
  for (const AdamOptions& o : options_)
    text += " betas=" + shortest(o.beta1) + "," + shortest(o.beta2) + " eps=" + shortest(o.eps) +
            " weight_decay=" + shortest(o.weight_decay) + " amsgrad=" + shortest(int{o.amsgrad});
  return text;
}

Status Adam::check() const {
  LOCKSTEP_TRY(Optimizer::check());
  for (const AdamOptions& o : options_) {
    LOCKSTEP_TRY(at_least_0("epsilon value", o.eps));
    LOCKSTEP_TRY(check_beta(0, o.beta1));
    LOCKSTEP_TRY(check_beta(1, o.beta2));
    LOCKSTEP_TRY(at_least_0("weight_decay value", o.weight_decay));
  }
  return {};
}

NamedTensors Adam::state() {
  auto state = Optimizer::state();
  state.emplace_back("step", steps_);
  append(state, "exp_avg", exp_avg_);
  append(state, "exp_avg_sq", exp_avg_sq_);
  append(state, "max_exp_avg_sq", max_exp_avg_sq_);
  return state;
}

AdamW::AdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options)
    : Adam(std::move(parameters), decoupled(options)) {}

AdamW::AdamW(const std::vector<ParamGroup<AdamWOptions>>& groups) : Adam(decoupled(groups)) {}

}  // namespace lockstep
