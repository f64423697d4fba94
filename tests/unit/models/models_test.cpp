#include "lockstep/models.h"

#include <ATen/Context.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/pooling.h>

#include "lockstep/optim.h"

namespace lockstep::models {
namespace {

namespace nn = torch::nn;

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

void train_one_step(Network& net, Optimizer& optimizer) {
  const at::Tensor scores = net.forward(at::randn({2, 3, 32, 32}));
  scores.backward(at::randn(scores.sizes()));
  optimizer.step();
}

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& tensor : tensors) out.push_back(tensor.detach().clone());
  return out;
}

TEST(Freeze, NoUpdateChangesAFrozenParameter) {
  at::manual_seed(0);
  const auto net = resnet18();
  freeze(*net);
  const std::vector<at::Tensor> encoder = trainable_parameters(*net);
  EXPECT_TRUE(encoder.empty());
  net->replace_head(two_layer_head(512, 3));

  const std::vector<at::Tensor> before = copies(net->parameters());
  Adam adam(net->parameters(), {.lr = 0.1, .weight_decay = 0.1});
  train_one_step(*net, adam);

  std::size_t changed = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const at::Tensor now = net->parameters()[i];
    EXPECT_EQ(now.equal(before[i]), !now.requires_grad());
    EXPECT_EQ(now.grad().defined(), now.requires_grad());
    changed += !now.equal(before[i]);
  }
  EXPECT_EQ(changed, 4U);  // two layers' weights and biases
  EXPECT_EQ(trainable_parameters(*net).size(), 4U);
}

TEST(Freeze, WhatWasCollectedBeforeIsDropped) {
  const auto net = quickstart_mlp(12, 2);
  at::Tensor scores = net->forward(at::randn({3, 12}));
  scores.sum().backward();
  freeze(*net);
  const std::vector<at::Tensor> before = copies(net->parameters());
  SGD(net->parameters(), {.lr = 1}).step();
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(net->parameters()[i].equal(before[i]));
}

TEST(ReplaceHead, TakesThePlaceAndTheNameOfTheOld) {
  const auto net = vgg16({.classifier_width = 8});
  net->replace_head(dropout_head({25088, 6, 4, 20}, 0.7));
  const auto names = net->named_parameters().keys();
  EXPECT_EQ(names.size(), 26U + 6U);
  EXPECT_EQ(names[26], "classifier.0.weight");
  EXPECT_EQ(names.back(), "classifier.6.bias");
  net->eval();  // reaches the new head's dropout too
  const at::Tensor image = at::randn({1, 3, 32, 32});
  EXPECT_TRUE(net->forward(image).equal(net->forward(image)));
  EXPECT_EQ(net->forward(image).size(1), 20);
}

TEST(Sizes, ImagesOfOtherSizesArePooled) {
  for (const std::int64_t size : {4, 13, 28, 30, 64})
    EXPECT_EQ(convnet()->forward(at::randn({2, 1, size, size})).sizes(), (at::IntArrayRef{2, 10}));
  const auto net = cifar_resnet18(3);
  net->eval();
  for (const std::int64_t size : {1, 8, 37})
    EXPECT_EQ(net->forward(at::randn({2, 3, size, size})).sizes(), (at::IntArrayRef{2, 3}));
}

TEST(Errors, NameTheValueAndTheLimit) {
  EXPECT_EQ(error_of([] {
              convnet()->forward(at::randn({2, 1, 28, 3}));
            }),
            "convnet: the images are [2, 1, 28, 3], but must be [B, 1, H, W] with H and W at least "
            "4");
  EXPECT_EQ(
      error_of([] {
        vgg16({.classifier_width = 1})->forward(at::randn({2, 3, 31, 32}));
      }),
      "vgg: the images are [2, 3, 31, 32], but must be [B, 3, H, W] with H and W at least 32");
  EXPECT_EQ(error_of([] { resnet34(0); }), "a network has at least 1 class, not 0");
  EXPECT_EQ(error_of([] { quickstart_mlp(0); }), "a layer is at least 1 wide, not 0");
  EXPECT_EQ(error_of([] { vgg19({.classifier_width = 0}); }), "a layer is at least 1 wide, not 0");
  EXPECT_EQ(error_of([] { dropout_head({5}, 0.5); }), "a head has at least two widths, not 1");
  EXPECT_EQ(error_of([] {
              dropout_head({5, 4, 2}, 1.5);
            }),
            "dropout probability has to be between 0 and 1, but got 1.5");
  EXPECT_EQ(error_of([] { resnet18()->replace_head(nullptr); }), "the new head is empty");
  EXPECT_EQ(error_of([] { resnet18()->replace_head(nn::Sequential()); }), "the new head is empty");
}

// As the notebook of seed 002 prints it.
TEST(PythonRepr, ConvNetIsAsInItsDocument) {
  EXPECT_EQ(python_repr(*convnet()), R"(ConvNet(
  (layer1): Sequential(
    (0): Conv2d(1, 16, kernel_size=(5, 5), stride=(1, 1), padding=(2, 2))
    (1): BatchNorm2d(16, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
    (2): ReLU()
    (3): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
  )
  (layer2): Sequential(
    (0): Conv2d(16, 32, kernel_size=(5, 5), stride=(1, 1), padding=(2, 2))
    (1): BatchNorm2d(32, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
    (2): ReLU()
    (3): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
  )
  (fc): Linear(in_features=1568, out_features=10, bias=True)
))");
}

// Each line as torch 2.11 prints the same layer.
TEST(PythonRepr, LayersWithOtherSettings) {
  nn::Conv2dOptions conv(4, 8, {3, 5});
  conv.stride({2, 1}).dilation(2).groups(2).bias(false).padding_mode(torch::kReflect);
  EXPECT_EQ(
      python_repr(*nn::Conv2d(conv)),
      "Conv2d(4, 8, kernel_size=(3, 5), stride=(2, 1), dilation=(2, 2), groups=2, bias=False, "
      "padding_mode=reflect)");
  EXPECT_EQ(python_repr(*nn::Conv2d(nn::Conv2dOptions(1, 1, 3).padding(torch::kSame))),
            "Conv2d(1, 1, kernel_size=(3, 3), stride=(1, 1), padding=same)");
  EXPECT_EQ(python_repr(*nn::Linear(nn::LinearOptions(3, 2).bias(false))),
            "Linear(in_features=3, out_features=2, bias=False)");
  EXPECT_EQ(python_repr(*nn::BatchNorm2d(
                nn::BatchNorm2dOptions(7).eps(1e-4).momentum(std::nullopt).affine(false))),
            "BatchNorm2d(7, eps=0.0001, momentum=None, affine=False, track_running_stats=True)");
  EXPECT_EQ(python_repr(*nn::BatchNorm2d(nn::BatchNorm2dOptions(1).eps(1e-16).momentum(1.0))),
            "BatchNorm2d(1, eps=1e-16, momentum=1.0, affine=True, track_running_stats=True)");
  EXPECT_EQ(python_repr(*nn::MaxPool2d(nn::MaxPool2dOptions({3, 2}).padding({1, 0}))),
            "MaxPool2d(kernel_size=(3, 2), stride=(3, 2), padding=(1, 0), dilation=1, "
            "ceil_mode=False)");
  EXPECT_EQ(python_repr(*nn::AdaptiveAvgPool2d(
                nn::AdaptiveAvgPool2dOptions({std::optional<std::int64_t>(3), std::nullopt}))),
            "AdaptiveAvgPool2d(output_size=(3, None))");
  EXPECT_EQ(python_repr(*nn::Dropout(nn::DropoutOptions(0.25).inplace(true))),
            "Dropout(p=0.25, inplace=True)");
  EXPECT_EQ(python_repr(*nn::Flatten()), "Flatten(start_dim=1, end_dim=-1)");
  EXPECT_EQ(python_repr(*nn::Tanh()), "Tanh()");
  EXPECT_EQ(python_repr(*nn::Sequential()), "Sequential()");
}

}  // namespace
}  // namespace lockstep::models
