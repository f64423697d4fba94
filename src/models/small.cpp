// The tutorials' small networks.
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <c10/util/Exception.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/pooling.h>

#include "models/layers.h"
#include "models/max_pool.h"

namespace lockstep::models {
namespace nn = torch::nn;
namespace {

// 5x5 convolution, batch norm, ReLU, 2x2 max pooling.
nn::Sequential stage(std::int64_t in, std::int64_t out) {
  nn::Sequential layers;
  layers->push_back(conv(in, out, 5, 1, true));
  layers->push_back(nn::BatchNorm2d(out));
  layers->push_back(nn::ReLU());
  layers->push_back(halving_max_pool());
  return layers;
}

struct ConvNet : Network {
  explicit ConvNet(std::int64_t num_classes) : Network("ConvNet") {
    check_classes(num_classes);
    layer1 = register_module("layer1", stage(1, 16));
    layer2 = register_module("layer2", stage(16, 32));
    fc = register_module("fc", nn::Linear(kSide * kSide * 32, num_classes));
  }

  at::Tensor forward(at::Tensor images) override {
    TORCH_CHECK_VALUE(images.dim() == 4 && images.size(2) >= 4 && images.size(3) >= 4,
                      "convnet: the images are ", images.sizes(),
                      ", but must be [B, 1, H, W] with H and W at least 4");
    at::Tensor out = layer2->forward(layer1->forward(std::move(images)));
    if (out.size(2) != kSide || out.size(3) != kSide)
      out = at::adaptive_avg_pool2d(out, {kSide, kSide});
    return fc(out.reshape({out.size(0), -1}));
  }

  static constexpr std::int64_t kSide = 7;  // of the features of a 28x28 image
  nn::Sequential layer1{nullptr}, layer2{nullptr};
  nn::Linear fc{nullptr};
};

struct QuickstartMlp : Network {
  QuickstartMlp(std::int64_t inputs, std::int64_t num_classes) : Network("Net") {
    check_classes(num_classes);
    check_width(inputs);
    flatten = register_module("flatten", nn::Flatten());
    linear_relu_stack = register_module("linear_relu_stack", nn::Sequential());
    linear_relu_stack->push_back(nn::Linear(inputs, 512));
    linear_relu_stack->push_back(nn::ReLU());
    linear_relu_stack->push_back(nn::Linear(512, 512));
    linear_relu_stack->push_back(nn::ReLU());
    linear_relu_stack->push_back(nn::Linear(512, num_classes));
  }

  at::Tensor forward(at::Tensor input) override {
    return linear_relu_stack->forward(flatten(input));
  }

  nn::Flatten flatten{nullptr};
  nn::Sequential linear_relu_stack{nullptr};
};

}  // namespace

std::shared_ptr<Network> convnet(std::int64_t num_classes) {
  return std::make_shared<ConvNet>(num_classes);
}

std::shared_ptr<Network> quickstart_mlp(std::int64_t inputs, std::int64_t num_classes) {
  return std::make_shared<QuickstartMlp>(inputs, num_classes);
}

nn::Linear toy_linear() { return nn::Linear(20, 1); }

}  // namespace lockstep::models
