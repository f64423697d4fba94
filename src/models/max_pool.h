// 2x2 max pooling, stride 2, with PyTorch's values and gradients bit for bit. libtorch's own looks
// at one pixel at a time where a picture is contiguous: a fifth of a step of the ConvNet.
#pragma once

#include <torch/nn/modules/pooling.h>

namespace lockstep::models {

// nn.MaxPool2d(2, 2) by class, name and print(). [B, C, H, W] or [C, H, W] -> half of H and W,
// rounded down. float32, contiguous, on the CPU: ours; all else is libtorch's.
class HalvingMaxPoolImpl : public torch::nn::MaxPool2dImpl {
 public:
  HalvingMaxPoolImpl();
  at::Tensor forward(const at::Tensor& input);
  std::shared_ptr<Module> clone(
      const std::optional<torch::Device>& device = std::nullopt) const override;
};
TORCH_MODULE(HalvingMaxPool);

}  // namespace lockstep::models
