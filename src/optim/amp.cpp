#include "lockstep/amp.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <stdexcept>
#include <unordered_set>

#include "base/text.h"
#include "optim/closure.h"

namespace lockstep {
namespace {

constexpr const char* kStepsOwn = "step.run() does it with the scaler in the train state";

}  // namespace

// torch/amp/autocast_mode.py, __enter__ and __exit__.
Autocast::Autocast(at::DeviceType device_type, std::optional<at::ScalarType> dtype, bool enabled,
                   std::optional<bool> cache_enabled)
    : device_type_(device_type),
      dtype_before_(at::autocast::get_autocast_dtype(device_type)),
      enabled_before_(at::autocast::is_autocast_enabled(device_type)),
      cache_before_(at::autocast::is_autocast_cache_enabled()) {
  const at::ScalarType wanted = dtype.value_or(dtype_before_);
  if (enabled && wanted != at::kHalf && wanted != at::kBFloat16)
    throw std::invalid_argument(std::string("Autocast: dtype is ") + at::toString(wanted) +
                                "; Half or BFloat16");
  at::autocast::set_autocast_enabled(device_type, enabled);
  at::autocast::set_autocast_dtype(device_type, wanted);
  at::autocast::set_autocast_cache_enabled(cache_enabled.value_or(cache_before_));
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_type_, enabled_before_);
  at::autocast::set_autocast_dtype(device_type_, dtype_before_);
  at::autocast::set_autocast_cache_enabled(cache_before_);
}

GradScaler::GradScaler(GradScalerOptions options)
    : options_(options),
      scale_(at::scalar_tensor(options.init_scale, at::kDouble).to(at::kFloat)),
      growth_tracker_(at::zeros({}, at::kInt)) {}

at::Tensor GradScaler::scale(const at::Tensor& outputs) const {
  optim::refuse_in_closure("GradScaler::scale()", kStepsOwn);
  return options_.enabled ? outputs * scale_ : outputs;
}

void GradScaler::unscale_(const Optimizer& optimizer) { unscale_(std::vector{&optimizer}); }

void GradScaler::unscale_(const std::vector<const Optimizer*>& optimizers) {
  std::unordered_set<const at::TensorImpl*> done;
  for (const Optimizer* optimizer : optimizers) unscale(*optimizer, done);
}

// torch/amp/grad_scaler.py, _unscale_grads_. Gradients may lie where other workers read them, so
// they are not changed in place.
void GradScaler::unscale(const Optimizer& optimizer,
                         std::unordered_set<const at::TensorImpl*>& done) {
  optim::refuse_in_closure("GradScaler::unscale_()", kStepsOwn);
  if (!options_.enabled) return;
  OfOptimizer& own = since_update_[&optimizer];
  if (own.stepped) throw std::logic_error("GradScaler: unscale_() is being called after step().");
  if (own.found_inf.defined())
    throw std::logic_error(
        "GradScaler: unscale_() has already been called on this optimizer since the last "
        "update().");
  const at::NoGradGuard no_grad;
  own.found_inf = at::zeros({}, at::kFloat);
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  const at::Tensor one = at::ones({});
  for (const at::Tensor& p : optimizer.parameters()) {
    at::Tensor& gradient = p.mutable_grad();
    if (!gradient.defined()) continue;
    if (gradient.scalar_type() == at::kHalf)
      throw std::logic_error("GradScaler: Attempting to unscale FP16 gradients.");
    const bool again = !done.insert(p.unsafeGetTensorImpl()).second;
    if (!again) gradient = gradient.clone();
    at::_amp_foreach_non_finite_check_and_unscale_({gradient}, own.found_inf,
                                                   again ? one : inverse);
  }
}

bool GradScaler::step(Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  if (since_update_[&optimizer].stepped)
    throw std::logic_error("GradScaler: step() has already been called since the last update().");
  if (!since_update_[&optimizer].found_inf.defined()) unscale_(optimizer);
  OfOptimizer& own = since_update_[&optimizer];
  own.stepped = true;
  const bool finite = own.found_inf.item<float>() == 0;
  if (finite) optimizer.step();
  return finite;
}

void GradScaler::update() {
  optim::refuse_in_closure("GradScaler::update()", kStepsOwn);
  if (!options_.enabled) return;
  if (since_update_.empty())
    throw std::logic_error("GradScaler: No inf checks were recorded prior to update.");
  at::Tensor found_inf = at::zeros({}, at::kFloat);
  for (const auto& [optimizer, own] : since_update_)
    if (own.found_inf.defined()) found_inf += own.found_inf;
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf, options_.growth_factor,
                         options_.backoff_factor, options_.growth_interval);
  if (std::isfinite(options_.max_scale)) scale_.clamp_max_(options_.max_scale);
  since_update_.clear();
}

double GradScaler::get_scale() const { return options_.enabled ? scale_.item<float>() : 1.0; }

NamedTensors GradScaler::state() const {
  if (!options_.enabled) return {};
  return {{"scale", scale_}, {"growth_tracker", growth_tracker_}};
}

std::string GradScaler::settings() const {
  if (!options_.enabled) return "GradScaler enabled=0";
  return "GradScaler init_scale=" + shortest(options_.init_scale) +
         " growth_factor=" + shortest(options_.growth_factor) +
         " backoff_factor=" + shortest(options_.backoff_factor) +
         " growth_interval=" + std::to_string(options_.growth_interval) +
         (std::isfinite(options_.max_scale) ? " max_scale=" + shortest(options_.max_scale) : "");
}

Status GradScaler::check() const {
  const auto wrong = [](const std::string& what) {
    return Error{ErrorKind::kUsage, "GradScaler: " + what};
  };
  const auto scale = scale_.item<float>();
  if (!std::isfinite(scale) || scale <= 0)
    return wrong("init_scale is " + shortest(options_.init_scale) + "; a float32 number above 0");
  if (!(options_.growth_factor > 1.0)) return wrong("The growth factor must be > 1.0.");
  if (!(options_.backoff_factor < 1.0) || options_.backoff_factor <= 0)
    return wrong("The backoff factor must be < 1.0, and above 0.");
  if (!(options_.max_scale >= options_.init_scale))
    return wrong("max_scale is " + shortest(options_.max_scale) + "; at least init_scale, " +
                 shortest(options_.init_scale));
  if (options_.growth_interval < 1)
    return wrong("growth_interval is " + std::to_string(options_.growth_interval) + "; at least 1");
  return {};
}

}  // namespace lockstep
