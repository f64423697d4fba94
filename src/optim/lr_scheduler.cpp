#include "lockstep/lr_scheduler.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace lockstep {
namespace {

enum Counter : std::size_t { kLastEpoch, kBadEpochs, kCooldown, kCounters };

std::int64_t& counter(const at::Tensor& counters, Counter which) {
  return counters.mutable_data_ptr<std::int64_t>()[which];
}

Status wrong(const std::string& what) { return Error{ErrorKind::kUsage, what}; }

}  // namespace

LRScheduler::LRScheduler(Optimizer& optimizer)
    : optimizer_(optimizer), all_(optimizer.schedulers_) {
  all_->push_back(this);
}

LRScheduler::~LRScheduler() { std::erase(*all_, this); }

StepLR::StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma)
    : LRScheduler(optimizer),
      step_size_(step_size),
      gamma_(gamma),
      last_epoch_(at::zeros({}, at::kLong)) {}

// The chainable form: from the rate as it is, whoever set it.
void StepLR::step() {
  if (++*last_epoch_.mutable_data_ptr<std::int64_t>() % step_size_ != 0) return;
  for (std::size_t g = 0; g < optimizer_.groups(); ++g)
    optimizer_.set_lr(g, optimizer_.lr(g) * gamma_);
}

std::int64_t StepLR::last_epoch() const { return *last_epoch_.const_data_ptr<std::int64_t>(); }

NamedTensors StepLR::state() const { return {{"last_epoch", last_epoch_}}; }

std::string StepLR::settings() const {
  return "StepLR step_size=" + std::to_string(step_size_) + " gamma=" + shortest(gamma_);
}

Status StepLR::check() const {
  if (step_size_ < 1)
    return wrong("StepLR: step_size is " + std::to_string(step_size_) + "; at least 1");
  if (!std::isfinite(gamma_) || gamma_ < 0)
    return wrong("StepLR: gamma is " + shortest(gamma_) + "; a finite number, at least 0");
  return {};
}

LambdaLR::LambdaLR(Optimizer& optimizer, Lambda lr_lambda)
    : LambdaLR(optimizer, std::vector<Lambda>(optimizer.groups(), std::move(lr_lambda))) {}

LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<Lambda> lr_lambdas)
    : LRScheduler(optimizer),
      lr_lambdas_(std::move(lr_lambdas)),
      base_lrs_(at::tensor(optimizer.rates(), at::kDouble)),
      last_epoch_(at::zeros({}, at::kLong)) {
  if (check().ok()) set_rates();
}

void LambdaLR::step() {
  ++*last_epoch_.mutable_data_ptr<std::int64_t>();
  set_rates();
}

void LambdaLR::set_rates() {
  const double* const base = base_lrs_.const_data_ptr<double>();
  for (std::size_t g = 0; g < lr_lambdas_.size(); ++g)
    optimizer_.set_lr(g, base[g] * lr_lambdas_[g](last_epoch()));
}

std::int64_t LambdaLR::last_epoch() const { return *last_epoch_.const_data_ptr<std::int64_t>(); }

std::vector<double> LambdaLR::base_lrs() const {
  const double* const base = base_lrs_.const_data_ptr<double>();
  return {base, base + base_lrs_.numel()};
}

NamedTensors LambdaLR::state() const {
  return {{"base_lrs", base_lrs_}, {"last_epoch", last_epoch_}};
}

std::string LambdaLR::settings() const { return "LambdaLR"; }

Status LambdaLR::check() const {
  if (lr_lambdas_.size() != optimizer_.groups())
    return wrong("Expected " + std::to_string(optimizer_.groups()) + " lr_lambdas, but got " +
                 std::to_string(lr_lambdas_.size()));
  if (std::ranges::all_of(lr_lambdas_, [](const Lambda& each) { return bool(each); })) return {};
  return wrong("LambdaLR with an empty function");
}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options)
    : LRScheduler(optimizer),
      options_(options),
      best_(at::scalar_tensor(options.mode == ReduceLROnPlateauOptions::Mode::kMin
                                  ? std::numeric_limits<double>::infinity()
                                  : -std::numeric_limits<double>::infinity(),
                              at::kDouble)),
      counters_(at::zeros({kCounters}, at::kLong)) {}

double ReduceLROnPlateau::best() const { return *best_.const_data_ptr<double>(); }
std::int64_t ReduceLROnPlateau::num_bad_epochs() const { return counter(counters_, kBadEpochs); }

bool ReduceLROnPlateau::is_better(double metric) const {
  const bool relative = options_.threshold_mode == ReduceLROnPlateauOptions::ThresholdMode::kRel;
  if (options_.mode == ReduceLROnPlateauOptions::Mode::kMin)
    return metric < (relative ? best() * (1.0 - options_.threshold) : best() - options_.threshold);
  return metric > (relative ? best() * (options_.threshold + 1.0) : best() + options_.threshold);
}

// torch/optim/lr_scheduler.py, ReduceLROnPlateau.step, in its order.
void ReduceLROnPlateau::step(double metric) {
  ++counter(counters_, kLastEpoch);
  std::int64_t& bad = counter(counters_, kBadEpochs);
  std::int64_t& cooldown = counter(counters_, kCooldown);
  if (is_better(metric)) {
    *best_.mutable_data_ptr<double>() = metric;
    bad = 0;
  } else {
    ++bad;
  }
  if (cooldown > 0) {
    --cooldown;
    bad = 0;
  }
  if (bad <= options_.patience) return;
  reduce();
  cooldown = options_.cooldown;
  bad = 0;
}

void ReduceLROnPlateau::reduce() {
  for (std::size_t g = 0; g < optimizer_.groups(); ++g) {
    const double old = optimizer_.lr(g), reduced = std::max(old * options_.factor, options_.min_lr);
    if (old - reduced > options_.eps) optimizer_.set_lr(g, reduced);
  }
}

NamedTensors ReduceLROnPlateau::state() const { return {{"best", best_}, {"counters", counters_}}; }

std::string ReduceLROnPlateau::settings() const {
  const ReduceLROnPlateauOptions& o = options_;
  return std::string("ReduceLROnPlateau mode=") +
         (o.mode == ReduceLROnPlateauOptions::Mode::kMin ? "min" : "max") +
         " factor=" + shortest(o.factor) + " patience=" + std::to_string(o.patience) +
         " threshold=" + shortest(o.threshold) +
         (o.threshold_mode == ReduceLROnPlateauOptions::ThresholdMode::kRel ? " rel" : " abs") +
         " cooldown=" + std::to_string(o.cooldown) + " min_lr=" + shortest(o.min_lr) +
         " eps=" + shortest(o.eps);
}

Status ReduceLROnPlateau::check() const {
  if (!(options_.factor < 1.0)) return wrong("Factor should be < 1.0.");
  for (const auto& [name, value] : {std::pair{"factor", options_.factor},
                                    {"threshold", options_.threshold},
                                    {"min_lr", options_.min_lr},
                                    {"eps", options_.eps}})
    if (!std::isfinite(value) || value < 0)
      return wrong(std::string("ReduceLROnPlateau: ") + name + " is " + shortest(value) +
                   "; a finite number, at least 0");
  if (options_.patience >= 0 && options_.cooldown >= 0) return {};
  return wrong("ReduceLROnPlateau: patience and cooldown are at least 0");
}

}  // namespace lockstep
