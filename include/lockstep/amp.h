// Mixed precision: torch.autocast and torch.amp.GradScaler (torch 2.11), with their names, defaults
// and bits.
//
//   lockstep::GradScaler scaler;  // for float16; bfloat16 needs none
//   lockstep::Trainer trainer(context, *model, optimizer, options);
//   trainer.scaler(scaler);
//   trainer.loss([&](const lockstep::data::Batch& batch) {
//     const lockstep::Autocast autocast(at::kCPU, at::kHalf);
//     return F::cross_entropy(model->forward(batch.inputs), batch.targets);
//   });
//
// A run whose train state has a scaler (Trainer::scaler, TrainState::add) does scale(), unscale_(),
// step() and update() by itself, in each step: the program's loss stays unscaled, and so does what
// is printed. Whether a step is left out is decided on the sum of all gradients, which is the same
// in every worker. A loop in PyTorch's style calls them as it does there.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "lockstep/named_tensors.h"
#include "lockstep/optim.h"
#include "lockstep/status.h"

namespace lockstep {

// While it lives, operators of this thread choose their precision as under torch.autocast: weights
// stay as they are. Scopes may be nested. Backward belongs outside.
class Autocast {
 public:
  // dtype: float16 or bfloat16; nullopt: the device's (bfloat16 on the CPU). cache_enabled: keep
  // the casts of weights until the outermost scope ends; nullopt: as it is (true). Throws
  // std::invalid_argument for another dtype.
  explicit Autocast(at::DeviceType device_type, std::optional<at::ScalarType> dtype = std::nullopt,
                    bool enabled = true, std::optional<bool> cache_enabled = std::nullopt);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_type_;
  at::ScalarType dtype_before_;
  bool enabled_before_, cache_before_;
};

struct GradScalerOptions {
  double init_scale = 65536.0;
  double growth_factor = 2.0;   // after `growth_interval` steps in a row without inf or NaN
  double backoff_factor = 0.5;  // after a step with one
  std::int64_t growth_interval = 2000;
  bool enabled = true;  // false: all its calls do what they would without a scaler
};

// Threads: one at a time. Misuse (two unscale_() of an optimizer before update(), float16
// gradients, update() before step()) throws std::logic_error, as PyTorch raises.
class GradScaler {
 public:
  explicit GradScaler(GradScalerOptions options = {});

  // outputs * scale.
  at::Tensor scale(const at::Tensor& outputs) const;
  // Divides the gradients of the optimizer's parameters by the scale, in new tensors; for clipping
  // before step(), which does it otherwise.
  void unscale_(const Optimizer& optimizer);
  // optimizer.step(), unless a gradient has an inf or a NaN. False: it was left out.
  bool step(Optimizer& optimizer);
  // The next step's scale.
  void update();

  double get_scale() const;  // 1 if it is not enabled
  bool is_enabled() const { return options_.enabled; }

  // Tensors of fixed shape that keep their address: scale (float32), growth_tracker (int32), both
  // scalars. Empty if it is not enabled.
  NamedTensors state() const;
  std::string settings() const;  // for the run's manifest
  Status check() const;          // kUsage for settings that PyTorch refuses

 private:
  struct OfOptimizer {
    at::Tensor found_inf;  // float32 scalar, 0 or 1
    bool stepped = false;
  };

  GradScalerOptions options_;
  at::Tensor scale_, growth_tracker_;
  std::map<const Optimizer*, OfOptimizer> since_update_;
};

}  // namespace lockstep
