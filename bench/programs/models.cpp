#include "programs/models.h"

#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/pooling.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "convnet/model.h"
#include "lockstep/context.h"

namespace lockstep::bench {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
}

struct BasicBlockImpl : nn::Module {
  BasicBlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride) {
    conv1 = register_module("conv1", conv(in, out, 3, stride));
    bn1 = register_module("bn1", nn::BatchNorm2d(out));
    conv2 = register_module("conv2", conv(out, out, 3, 1));
    bn2 = register_module("bn2", nn::BatchNorm2d(out));
    if (stride == 1 && in == out) return;
    downsample = register_module("downsample", nn::Sequential());
    downsample->push_back(conv(in, out, 1, stride));
    downsample->push_back(nn::BatchNorm2d(out));
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = F::relu(bn1(conv1(x)));
    y = bn2(conv2(y));
    return F::relu(y + (downsample.is_empty() ? x : downsample->forward(x)));
  }
  nn::Conv2d conv1{nullptr}, conv2{nullptr};
  nn::BatchNorm2d bn1{nullptr}, bn2{nullptr};
  nn::Sequential downsample{nullptr};
};
TORCH_MODULE(BasicBlock);

struct ResNet18Impl : nn::Module {
  ResNet18Impl() {
    conv1 = register_module("conv1", conv(3, 64, 7, 2));
    bn1 = register_module("bn1", nn::BatchNorm2d(64));
    std::int64_t in = 64;
    for (int i = 0; i < 4; ++i) {
      const std::int64_t out = std::int64_t{64} << i;
      nn::Sequential layer;
      layer->push_back(BasicBlock(in, out, i == 0 ? 1 : 2));
      layer->push_back(BasicBlock(out, out, 1));
      layers.push_back(register_module("layer" + std::to_string(i + 1), layer));
      in = out;
    }
    fc = register_module("fc", nn::Linear(512, 10));
  }
  at::Tensor forward(at::Tensor x) {
    x = F::relu(bn1(conv1(x)));
    x = F::max_pool2d(x, F::MaxPool2dFuncOptions(3).stride(2).padding(1));
    for (nn::Sequential& layer : layers) x = layer->forward(x);
    return fc(x.mean({2, 3}));
  }
  nn::Conv2d conv1{nullptr};
  nn::BatchNorm2d bn1{nullptr};
  std::vector<nn::Sequential> layers;
  nn::Linear fc{nullptr};
};
TORCH_MODULE(ResNet18);

struct MlpImpl : nn::Module {
  explicit MlpImpl(const std::vector<std::int64_t>& widths) {
    for (std::size_t i = 0; i + 1 < widths.size(); ++i)
      layers.push_back(
          register_module("linear" + std::to_string(i), nn::Linear(widths[i], widths[i + 1])));
  }
  at::Tensor forward(at::Tensor x) {
    x = x.flatten(1);
    for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i](i == 0 ? x : F::relu(x));
    return x;
  }
  std::vector<nn::Linear> layers;
};
TORCH_MODULE(Mlp);

template <class Holder>
Model of(Holder net, std::vector<std::int64_t> shape, std::int64_t batch_size) {
  return {net.ptr(), [net](at::Tensor x) mutable { return net->forward(std::move(x)); }, nullptr,
          std::move(shape), batch_size};
}

}  // namespace

Model make_model(const std::string& name) {
  Model model;
  if (name == "convnet") model = of(convnet::ConvNet(), {1, 28, 28}, 100);
  if (name == "wide_mlp")
    model = of(Mlp(std::vector<std::int64_t>{784, 2048, 2048, 10}), {1, 28, 28}, 64);
  if (name == "tiny_mlp") model = of(Mlp(std::vector<std::int64_t>{784, 128, 10}), {1, 28, 28}, 64);
  if (name == "resnet18") model = of(ResNet18(), {3, 32, 32}, 8);
  if (model.module == nullptr) exit_with(Error{ErrorKind::kUsage, "no model '" + name + "'"});
  if (name == "resnet18")
    model.optimizer = std::make_unique<Adam>(model.module->parameters(), AdamOptions{.lr = 1e-3});
  else
    model.optimizer = std::make_unique<SGD>(model.module->parameters(),
                                            SGDOptions{.lr = name == "convnet" ? 1e-4 : 1e-2});
  return model;
}

}  // namespace lockstep::bench
