// The tutorial's ConvNet: two stages of 5x5 convolution, batch norm, ReLU and 2x2 max pooling (16,
// then 32 channels), one linear layer. 28,938 parameters; names, order and initial values as in
// Python.
#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace convnet {

struct ConvNetImpl : torch::nn::Module {
  explicit ConvNetImpl(int num_classes = 10);
  // images: float32 [B, 1, 28, 28] -> scores float32 [B, num_classes]
  at::Tensor forward(at::Tensor images);

  torch::nn::Sequential layer1, layer2;
  torch::nn::Linear fc{nullptr};
};
TORCH_MODULE(ConvNet);

}  // namespace convnet
