// torchvision's vgg16, vgg19 and their batch-norm forms ("Very Deep Convolutional Networks", arXiv
// 1409.1556).
#include <c10/util/Exception.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/pooling.h>

#include <array>

#include "models/layers.h"
#include "models/max_pool.h"

namespace lockstep::models {
namespace nn = torch::nn;
namespace {

constexpr std::int64_t kLeastSize = 32;  // five times halved, at least one pixel is left

// Channels of the five stages, and how many convolutions each has.
constexpr std::int64_t kChannels[] = {64, 128, 256, 512, 512};
using Depths = std::array<int, 5>;
constexpr Depths kVgg16{2, 2, 3, 3, 3}, kVgg19{2, 2, 4, 4, 4};

nn::Sequential make_features(const Depths& depths, bool batch_norm) {
  nn::Sequential features;
  std::int64_t in = 3;
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    for (int i = 0; i < depths[stage]; ++i) {
      features->push_back(conv(in, kChannels[stage], 3, 1, true));
      if (batch_norm) features->push_back(nn::BatchNorm2d(kChannels[stage]));
      features->push_back(relu_in_place());
      in = kChannels[stage];
    }
    features->push_back(halving_max_pool());
  }
  return features;
}

struct Vgg : Backbone {
  Vgg(const Depths& depths, bool batch_norm, const VggOptions& o) : Backbone("VGG") {
    check_classes(o.num_classes);
    features = register_module("features", make_features(depths, batch_norm));
    avgpool = register_module("avgpool", nn::AdaptiveAvgPool2d(7));
    const std::int64_t width = o.classifier_width;
    classifier = register_module(
        "classifier", dropout_head({512 * 7 * 7, width, width, o.num_classes}, o.dropout));
    if (o.init_weights) draw_as_torchvision(*this, LinearDraw::kNormal);
  }

  at::Tensor forward(at::Tensor images) override {
    TORCH_CHECK_VALUE(
        images.dim() == 4 && images.size(2) >= kLeastSize && images.size(3) >= kLeastSize,
        "vgg: the images are ", images.sizes(), ", but must be [B, 3, H, W] with H and W at least ",
        kLeastSize);
    return classifier->forward(avgpool(features->forward(std::move(images))).flatten(1));
  }

  void replace_head(nn::Sequential head) override {
    check_head(head);
    classifier = replace_module("classifier", std::move(head));
  }

  nn::Sequential features{nullptr}, classifier{nullptr};
  nn::AdaptiveAvgPool2d avgpool{nullptr};
};

}  // namespace

std::shared_ptr<Backbone> vgg16(const VggOptions& options) {
  return std::make_shared<Vgg>(kVgg16, false, options);
}

std::shared_ptr<Backbone> vgg16_bn(const VggOptions& options) {
  return std::make_shared<Vgg>(kVgg16, true, options);
}

std::shared_ptr<Backbone> vgg19(const VggOptions& options) {
  return std::make_shared<Vgg>(kVgg19, false, options);
}

std::shared_ptr<Backbone> vgg19_bn(const VggOptions& options) {
  return std::make_shared<Vgg>(kVgg19, true, options);
}

}  // namespace lockstep::models
