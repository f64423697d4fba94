// The networks of the training benchmarks, as in the Python peers: ConvNet and two MLPs on 1x28x28
// images; torchvision's resnet18 and vgg19 with 10 classes, the latter without dropout, and the
// CIFAR-10 tutorial's ResNet-18, on 3x32x32. vgg19_quarter: a quarter of vgg19's parameters.
// Initial values are drawn from the default generator.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/optim.h"

namespace lockstep::bench {

struct Model {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(at::Tensor)> forward;  // [B, shape...] -> scores [B, 10]
  std::unique_ptr<Optimizer> optimizer;
  std::vector<std::int64_t> shape;                         // of one image
  std::int64_t batch_size = 0;                             // of each worker; the peers'
  at::MemoryFormat format = at::MemoryFormat::Contiguous;  // of images and weights
  bool bf16 = false;                                       // autocast
};

// convnet, wide_mlp, tiny_mlp, resnet18, cifar_resnet18, vgg19, vgg19_quarter; behind it
// "+channels_last" and "+bf16", in this order; or "+slept=MS": nothing is computed, forward and
// backward together sleep for so long, and gradients of one value come one by one as backward goes.
// Another name ends the process.
Model make_model(const std::string& name);

}  // namespace lockstep::bench
