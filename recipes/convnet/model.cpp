#include "model.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/pooling.h>

namespace convnet {
namespace nn = torch::nn;

// One push_back a layer: as arguments of one call, g++ would draw the initial values right to left.
static nn::Sequential stage(int in, int out) {
  nn::Sequential layers;
  layers->push_back(nn::Conv2d(nn::Conv2dOptions(in, out, 5).stride(1).padding(2)));
  layers->push_back(nn::BatchNorm2d(out));
  layers->push_back(nn::ReLU());
  layers->push_back(nn::MaxPool2d(nn::MaxPool2dOptions(2).stride(2)));
  return layers;
}

ConvNetImpl::ConvNetImpl(int num_classes) {
  layer1 = register_module("layer1", stage(1, 16));
  layer2 = register_module("layer2", stage(16, 32));
  fc = register_module("fc", nn::Linear(7 * 7 * 32, num_classes));
}

at::Tensor ConvNetImpl::forward(at::Tensor images) {
  const at::Tensor out = layer2->forward(layer1->forward(images));
  return fc->forward(out.reshape({out.size(0), -1}));
}

}  // namespace convnet
