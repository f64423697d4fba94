// What the networks share. One push_back or statement per layer everywhere: as arguments of one
// call, g++ would draw their initial values right to left.
#pragma once

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>

#include "lockstep/models.h"

namespace lockstep::models {

// Square, padded to keep the size at stride 1.
torch::nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t stride,
                       bool bias = false);
torch::nn::ReLU relu_in_place();

void check_classes(std::int64_t num_classes);
void check_width(std::int64_t width);
void check_head(const torch::nn::Sequential& head);

// torchvision's second draw, over what is registered so far and in that order: kaiming_normal_ by
// fan_out for convolutions, ones for batch norm, zeros for the biases of both; linear layers get
// N(0, 0.01) and zeros in vgg and keep PyTorch's values in resnet.
enum class LinearDraw { kKeep, kNormal };
void draw_as_torchvision(torch::nn::Module& module, LinearDraw linear);

}  // namespace lockstep::models
