// apex/amp/_initialize.py, _process_optimizer.py and fp16_utils/fp16util.py, opt_level O2.
#include <ATen/core/grad_mode.h>
#include <torch/nn/modules/batchnorm.h>

#include <stdexcept>

#include "lockstep/amp.h"
#include "lockstep/state.h"

namespace lockstep {
namespace {

template <class Layer>
bool has_weights(const torch::nn::Module& module) {
  const auto* const norm = module.as<Layer>();
  return norm != nullptr && norm->options.affine();
}

// convert_network()'s exception: such a layer takes half inputs and computes in fp32.
bool stays_fp32(const torch::nn::Module& module) {
  return has_weights<torch::nn::BatchNorm1d>(module) ||
         has_weights<torch::nn::BatchNorm2d>(module) || has_weights<torch::nn::BatchNorm3d>(module);
}

void convert(at::Tensor& tensor, at::ScalarType dtype) {
  if (tensor.is_floating_point()) tensor.set_data(tensor.detach().to(dtype));
}

// The master of a converted parameter, made when it is first met; any other as it is.
at::Tensor trained(const at::Tensor& own, at::ScalarType dtype,
                   std::vector<MasterWeights::Pair>& pairs) {
  if (own.scalar_type() != dtype) return own;
  for (const MasterWeights::Pair& pair : pairs)
    if (pair.model.is_same(own)) return pair.master;
  pairs.push_back({own, own.detach().to(at::kFloat).set_requires_grad(own.requires_grad())});
  return pairs.back().master;
}

}  // namespace

MasterWeights::MasterWeights(torch::nn::Module& module, at::ScalarType dtype) : dtype_(dtype) {
  if (dtype != at::kHalf && dtype != at::kBFloat16)
    throw std::invalid_argument(std::string("MasterWeights: dtype is ") + at::toString(dtype) +
                                "; Half or BFloat16");
  const at::NoGradGuard no_grad;
  for (const auto& layer : module.modules()) {
    if (stays_fp32(*layer)) continue;
    for (at::Tensor& p : layer->parameters(/*recurse=*/false)) convert(p, dtype);
    for (at::Tensor& b : layer->buffers(/*recurse=*/false)) convert(b, dtype);
  }
  for (const auto& item : module.named_parameters())
    parameters_.emplace_back(item.key(), trained(item.value(), dtype, pairs_));
  tensors_ = lockstep::state_dict(module);
  for (auto& [name, tensor] : tensors_)
    for (const auto& [parameter, master] : parameters_)
      if (name == parameter) tensor = master;
}

std::vector<at::Tensor> MasterWeights::parameters() const {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : parameters_) tensors.push_back(tensor);
  return tensors;
}

NamedTensors MasterWeights::state_dict() const { return tensors_; }

void MasterWeights::model_grads_to_master_grads() {
  const at::NoGradGuard no_grad;
  for (Pair& pair : pairs_) {
    const at::Tensor& gradient = pair.model.grad();
    pair.master.mutable_grad() = gradient.defined() ? gradient.to(at::kFloat) : at::Tensor();
  }
}

void MasterWeights::master_params_to_model_params() {
  const at::NoGradGuard no_grad;
  for (Pair& pair : pairs_) {
    pair.model.copy_(pair.master);
    pair.master.mutable_grad().reset();
  }
}

std::string MasterWeights::settings() const {
  return std::string("MasterWeights ") + at::toString(dtype_);
}

}  // namespace lockstep
