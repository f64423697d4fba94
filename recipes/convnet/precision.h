// The tutorial's Apex section: amp.initialize(model, optimizer, opt_level=...), then scale_loss().
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "lockstep/amp.h"
#include "lockstep/models.h"
#include "lockstep/state.h"
#include "lockstep/trainer.h"
#include "options.h"

namespace convnet {

// What --opt-level makes of a model that has just been made:
//   O0  fp32: nothing
//   O1  autocast around the forward, dynamic loss scale
//   O2  half weights with fp32 masters, batch norm in fp32, dynamic loss scale
//   O3  all of it half, no scale
// Ownership: refers to the model, which outlives it; the trainer or state refers to it.
class Precision {
 public:
  Precision(const Options& options, lockstep::models::Network& model);

  std::vector<at::Tensor> parameters() const;  // for the optimizer
  // What it has of the run's state. Before fit(), open().
  void attach(lockstep::Trainer& trainer);
  lockstep::Status attach(lockstep::TrainState& state);
  // [B, 1, 28, 28] fp32 -> scores [B, 10] fp32, whatever is between.
  at::Tensor forward(const at::Tensor& images);

 private:
  lockstep::models::Network& model_;
  at::ScalarType half_;
  OptLevel level_;
  std::optional<lockstep::MasterWeights> masters_;
  std::optional<lockstep::GradScaler> scaler_;
};

}  // namespace convnet
