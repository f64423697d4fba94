#include "precision.h"

namespace convnet {
namespace {

constexpr double kApexMaxScale = 16777216;  // 2^24; where it begins and grows is PyTorch's too

// Module::to() of the C++ frontend would convert counters, too.
void convert(torch::nn::Module& model, at::ScalarType dtype) {
  for (at::Tensor& p : model.parameters()) p.set_data(p.detach().to(dtype));
  for (at::Tensor& b : model.buffers())
    if (b.is_floating_point()) b.set_data(b.detach().to(dtype));
}

}  // namespace

Precision::Precision(const Options& options, lockstep::models::Network& model)
    : model_(model),
      half_(options.half == HalfType::kFloat16 ? at::kHalf : at::kBFloat16),
      level_(options.opt_level) {
  if (level_ == OptLevel::kO1 || level_ == OptLevel::kO2)
    scaler_.emplace(lockstep::GradScalerOptions{.max_scale = kApexMaxScale});
  if (level_ == OptLevel::kO2) masters_.emplace(model, half_);
  if (level_ == OptLevel::kO3) convert(model, half_);
}

std::vector<at::Tensor> Precision::parameters() const {
  return masters_ ? masters_->parameters() : model_.parameters();
}

void Precision::attach(lockstep::Trainer& trainer) {
  if (masters_) trainer.master_weights(*masters_);
  if (scaler_) trainer.scaler(*scaler_);
}

lockstep::Status Precision::attach(lockstep::TrainState& state) {
  if (masters_) LOCKSTEP_TRY(state.add("master_weights", *masters_));
  if (scaler_) LOCKSTEP_TRY(state.add("scaler", *scaler_));
  return {};
}

at::Tensor Precision::forward(const at::Tensor& images) {
  const bool half_weights = level_ == OptLevel::kO2 || level_ == OptLevel::kO3;
  const lockstep::Autocast autocast(at::kCPU, half_, level_ == OptLevel::kO1);
  return model_.forward(half_weights ? images.to(half_) : images).to(at::kFloat);
}

}  // namespace convnet
