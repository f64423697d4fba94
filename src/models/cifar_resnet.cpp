// The ResNet-18 of the tutorial on CIFAR-10 for clusters.
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/pooling.h>

#include "models/layers.h"

namespace lockstep::models {
namespace nn = torch::nn;
namespace {

struct Block : Network {
  Block(std::int64_t in, std::int64_t out, std::int64_t stride) : Network("Block") {
    residual_function = register_module("residual_function", nn::Sequential());
    residual_function->push_back(conv(in, out, 3, stride));
    residual_function->push_back(nn::BatchNorm2d(out));
    residual_function->push_back(relu_in_place());
    residual_function->push_back(conv(out, out, 3, 1));
    residual_function->push_back(nn::BatchNorm2d(out));
    shortcut = register_module("shortcut", nn::Sequential());
    if (stride == 1 && in == out) return;
    shortcut->push_back(conv(in, out, 1, stride));
    shortcut->push_back(nn::BatchNorm2d(out));
  }

  at::Tensor forward(at::Tensor x) override {
    const at::Tensor residual = residual_function->forward(x);
    return (residual + (shortcut->is_empty() ? x : shortcut->forward(x))).relu_();
  }

  nn::Sequential residual_function{nullptr}, shortcut{nullptr};
};

nn::Sequential stage(std::int64_t in, std::int64_t out, std::int64_t stride) {
  nn::Sequential layer;
  layer->push_back(std::make_shared<Block>(in, out, stride));
  layer->push_back(std::make_shared<Block>(out, out, std::int64_t{1}));
  return layer;
}

nn::Sequential stem() {
  nn::Sequential layer;
  layer->push_back(conv(3, 64, 3, 1));
  layer->push_back(nn::BatchNorm2d(64));
  layer->push_back(relu_in_place());
  return layer;
}

struct CifarResNet : Network {
  explicit CifarResNet(std::int64_t num_classes) : Network("ResNet") {
    check_classes(num_classes);
    layers.emplace_back(register_module("conv1", stem()));
    layers.emplace_back(register_module("conv2", stage(64, 64, 1)));
    layers.emplace_back(register_module("conv3", stage(64, 128, 2)));
    layers.emplace_back(register_module("conv4", stage(128, 256, 2)));
    layers.emplace_back(register_module("conv5", stage(256, 512, 2)));
    avg_pool = register_module("avg_pool", nn::AdaptiveAvgPool2d(1));
    dense_layer = register_module("dense_layer", nn::Linear(512, num_classes));
  }

  at::Tensor forward(at::Tensor x) override {
    for (nn::Sequential& layer : layers) x = layer->forward(x);
    return dense_layer(avg_pool(x).flatten(1));
  }

  std::vector<nn::Sequential> layers;
  nn::AdaptiveAvgPool2d avg_pool{nullptr};
  nn::Linear dense_layer{nullptr};
};

}  // namespace

std::shared_ptr<Network> cifar_resnet18(std::int64_t num_classes) {
  return std::make_shared<CifarResNet>(num_classes);
}

}  // namespace lockstep::models
