#include "models/layers.h"

#include <c10/util/Exception.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>

namespace lockstep::models {
namespace nn = torch::nn;

nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t stride,
                bool bias) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(bias));
}

nn::ReLU relu_in_place() { return nn::ReLU(nn::ReLUOptions(true)); }

void check_classes(std::int64_t num_classes) {
  TORCH_CHECK_VALUE(num_classes >= 1, "a network has at least 1 class, not ", num_classes);
}

void check_width(std::int64_t width) {
  TORCH_CHECK_VALUE(width >= 1, "a layer is at least 1 wide, not ", width);
}

void check_head(const nn::Sequential& head) {
  TORCH_CHECK_VALUE(!head.is_empty() && !head->is_empty(), "the new head is empty");
}

void to_channels_last(nn::Module& module) {
  for (at::Tensor& p : module.parameters())
    if (p.dim() == 4) p.set_data(p.contiguous(at::MemoryFormat::ChannelsLast));
}

void draw_as_torchvision(nn::Module& module, LinearDraw linear) {
  for (const auto& layer : module.modules(false)) {
    if (auto* convolution = layer->as<nn::Conv2d>()) {
      nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
      if (convolution->bias.defined()) nn::init::zeros_(convolution->bias);
    } else if (auto* norm = layer->as<nn::BatchNorm2d>()) {
      nn::init::ones_(norm->weight);
      nn::init::zeros_(norm->bias);
    } else if (auto* dense = layer->as<nn::Linear>(); dense && linear == LinearDraw::kNormal) {
      nn::init::normal_(dense->weight, 0, 0.01);
      nn::init::zeros_(dense->bias);
    }
  }
}

nn::Sequential two_layer_head(std::int64_t features, std::int64_t num_classes) {
  check_width(features);
  check_classes(num_classes);
  nn::Sequential head;
  head->push_back(nn::Linear(features, features));
  head->push_back(nn::ReLU());
  head->push_back(nn::Linear(features, num_classes));
  return head;
}

nn::Sequential dropout_head(const std::vector<std::int64_t>& widths, double dropout) {
  TORCH_CHECK_VALUE(widths.size() >= 2, "a head has at least two widths, not ", widths.size());
  for (const std::int64_t width : widths) check_width(width);
  nn::Sequential head;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) head->push_back(relu_in_place());
    if (i > 0) head->push_back(nn::Dropout(dropout));
    head->push_back(nn::Linear(widths[i], widths[i + 1]));
  }
  return head;
}

void freeze(nn::Module& module) {
  for (at::Tensor& parameter : module.parameters()) {
    parameter.requires_grad_(false);
    parameter.mutable_grad().reset();
  }
}

std::vector<at::Tensor> trainable_parameters(const nn::Module& module) {
  std::vector<at::Tensor> parameters = module.parameters();
  std::erase_if(parameters, [](const at::Tensor& p) { return !p.requires_grad(); });
  return parameters;
}

}  // namespace lockstep::models
