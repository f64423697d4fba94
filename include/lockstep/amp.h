// Mixed precision: torch.autocast and torch.amp.GradScaler (torch 2.11), with their names, defaults
// and bits; and half weights with fp32 masters (MasterWeights).
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
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lockstep/named_tensors.h"
#include "lockstep/optim.h"
#include "lockstep/status.h"

namespace torch::nn {
class Module;
}

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
  // Not PyTorch's, which has none: the scale grows no further. Apex's is 2^24.
  double max_scale = std::numeric_limits<double>::infinity();
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
  // The same of several, before one joint clip: what two of them have, once.
  void unscale_(const std::vector<const Optimizer*>& optimizers);
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
  // `done`: parameters whose gradients are unscaled already.
  void unscale(const Optimizer& optimizer, std::unordered_set<const at::TensorImpl*>& done);

  GradScalerOptions options_;
  at::Tensor scale_, growth_tracker_;
  std::map<const Optimizer*, OfOptimizer> since_update_;
};

// A model of half weights that is trained in fp32: Apex's opt_level O2 (apex.amp, 0.1), by its
// rules.
//
//   const auto model = lockstep::models::convnet();
//   lockstep::MasterWeights masters(*model, at::kHalf);  // the model's weights are half now
//   lockstep::SGD optimizer(masters.parameters(), {.lr = 1e-4});
//   lockstep::GradScaler scaler({.max_scale = 16777216});
//   lockstep::Trainer trainer(context, *model, optimizer, options);
//   trainer.master_weights(masters);
//   trainer.scaler(scaler);
//   trainer.loss([&](const lockstep::data::Batch& batch) {
//     const at::Tensor scores = model->forward(batch.inputs.to(at::kHalf)).to(at::kFloat);
//     return F::cross_entropy(scores, batch.targets);
//   });
//
// The masters are what the run keeps: its train state has them in the half weights' place, under
// the same names, so checkpoints, newcomers and hashes are fp32. Gradients are half, and so is
// their mean over virtual workers. A run does the copying both ways by itself; a loop in PyTorch's
// style does it around the update:
//
//   model->zero_grad();
//   scaler.scale(loss).backward();
//   masters.model_grads_to_master_grads();
//   scaler.step(optimizer);
//   scaler.update();
//   masters.master_params_to_model_params();
//
// Weights from elsewhere are loaded into the model before this is made: Trainer::start_from() is
// refused (kUsage). Ownership: shares the model's tensors. Threads: one at a time.
class MasterWeights {
 public:
  struct Pair {
    at::Tensor model;   // half, the module's own
    at::Tensor master;  // fp32, the same shape and layout
  };

  // Turns the module's floating parameters and buffers into `dtype` (float16 or bfloat16; else
  // throws std::invalid_argument), in place, but for batch norms with weights of their own, which
  // stay as they are. The masters begin as the rounded weights.
  MasterWeights(torch::nn::Module& module, at::ScalarType dtype);

  // For the optimizer, in the module's order: masters, and the parameters that are none's.
  std::vector<at::Tensor> parameters() const;
  // PyTorch's, in fp32: of parameters() and the module's buffers, for save_safetensors(), save_pt()
  // and weights_sha256().
  NamedTensors state_dict() const;
  at::ScalarType dtype() const { return dtype_; }
  const std::vector<Pair>& pairs() const { return pairs_; }

  // apex.fp16_utils' names. The gradients of the half weights, as fp32, become the masters'; none
  // stays none.
  void model_grads_to_master_grads();
  // The half weights become the masters, rounded to nearest; the masters' gradients are let go.
  void master_params_to_model_params();

  std::string settings() const;  // for the run's manifest

 private:
  at::ScalarType dtype_;
  std::vector<Pair> pairs_;  // of converted parameters, each once
  NamedTensors parameters_;
  NamedTensors tensors_;  // those and the buffers, in a state_dict's order
};

}  // namespace lockstep
