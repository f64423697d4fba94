// torchvision's resnet18 and resnet34 ("Deep Residual Learning", arXiv 1512.03385).
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/pooling.h>

#include "models/layers.h"

namespace lockstep::models {
namespace nn = torch::nn;
namespace {

struct BasicBlock : Network {
  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride) : Network("BasicBlock") {
    // Drawn first, registered last, as in torchvision.
    nn::Sequential shortcut{nullptr};
    if (stride != 1 || in != out) {
      shortcut = nn::Sequential();
      shortcut->push_back(conv(in, out, 1, stride));
      shortcut->push_back(nn::BatchNorm2d(out));
    }
    conv1 = register_module("conv1", conv(in, out, 3, stride));
    bn1 = register_module("bn1", nn::BatchNorm2d(out));
    relu = register_module("relu", relu_in_place());
    conv2 = register_module("conv2", conv(out, out, 3, 1));
    bn2 = register_module("bn2", nn::BatchNorm2d(out));
    if (!shortcut.is_empty()) downsample = register_module("downsample", shortcut);
  }

  at::Tensor forward(at::Tensor x) override {
    at::Tensor out = relu(bn1(conv1(x)));
    out = bn2(conv2(out));
    out += downsample.is_empty() ? x : downsample->forward(x);
    return relu(out);
  }

  nn::Conv2d conv1{nullptr}, conv2{nullptr};
  nn::BatchNorm2d bn1{nullptr}, bn2{nullptr};
  nn::ReLU relu{nullptr};
  nn::Sequential downsample{nullptr};
};

nn::Sequential stage(std::int64_t in, std::int64_t out, std::int64_t stride, int blocks) {
  nn::Sequential layer;
  for (int i = 0; i < blocks; ++i)
    layer->push_back(
        std::make_shared<BasicBlock>(i == 0 ? in : out, out, i == 0 ? stride : std::int64_t{1}));
  return layer;
}

struct ResNet : Backbone {
  ResNet(const std::vector<int>& blocks, std::int64_t num_classes) : Backbone("ResNet") {
    check_classes(num_classes);
    conv1 = register_module("conv1", conv(3, 64, 7, 2));
    bn1 = register_module("bn1", nn::BatchNorm2d(64));
    relu = register_module("relu", relu_in_place());
    maxpool =
        register_module("maxpool", nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1)));
    std::int64_t in = 64;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::int64_t out = std::int64_t{64} << i;
      layers.emplace_back(register_module("layer" + std::to_string(i + 1),
                                          stage(in, out, i == 0 ? 1 : 2, blocks[i])));
      in = out;
    }
    avgpool = register_module("avgpool", nn::AdaptiveAvgPool2d(1));
    head->push_back(register_module("fc", nn::Linear(in, num_classes)));
    draw_as_torchvision(*this, LinearDraw::kKeep);
  }

  at::Tensor forward(at::Tensor x) override {
    x = maxpool(relu(bn1(conv1(x))));
    for (nn::Sequential& layer : layers) x = layer->forward(x);
    return head->forward(avgpool(x).flatten(1));
  }

  void replace_head(nn::Sequential new_head) override {
    check_head(new_head);
    replace_module("fc", new_head);
    head = new_head;
  }

  nn::Conv2d conv1{nullptr};
  nn::BatchNorm2d bn1{nullptr};
  nn::ReLU relu{nullptr};
  nn::MaxPool2d maxpool{nullptr};
  std::vector<nn::Sequential> layers;
  nn::AdaptiveAvgPool2d avgpool{nullptr};
  nn::Sequential head;  // not registered itself: what stands under "fc"
};

}  // namespace

std::shared_ptr<Backbone> resnet18(std::int64_t num_classes) {
  return std::make_shared<ResNet>(std::vector<int>{2, 2, 2, 2}, num_classes);
}

std::shared_ptr<Backbone> resnet34(std::int64_t num_classes) {
  return std::make_shared<ResNet>(std::vector<int>{3, 4, 6, 3}, num_classes);
}

}  // namespace lockstep::models
