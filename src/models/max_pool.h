// 2x2 max pooling, stride 2, with PyTorch's values and gradients bit for bit. libtorch's own looks
// at one pixel at a time where a picture is contiguous: a fifth of a step of the ConvNet.
#pragma once

#include <torch/nn/modules/pooling.h>

namespace lockstep::models {

// nn::MaxPool2d with its options, by class and print() too, for inputs [B, C, H, W] or [C, H, W].
// Ours where it is kernel 2, stride 2 and nothing else, of float32, contiguous, on the CPU; all
// else is libtorch's. Threads: as at::parallel_for.
class MaxPool2dImpl : public torch::nn::MaxPool2dImpl {
 public:
  explicit MaxPool2dImpl(const torch::nn::MaxPool2dOptions& settings);
  at::Tensor forward(const at::Tensor& input);
  std::shared_ptr<Module> clone(
      const std::optional<torch::Device>& device = std::nullopt) const override;
};
TORCH_MODULE(MaxPool2d);

// 2x2, stride 2: half of H and W, rounded down.
MaxPool2d halving_max_pool();

}  // namespace lockstep::models
