#include "programs/models.h"

#include <torch/nn/functional/activation.h>

#include "lockstep/context.h"
#include "lockstep/models.h"

namespace lockstep::bench {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

struct Mlp : models::Network {
  explicit Mlp(const std::vector<std::int64_t>& widths) {
    for (std::size_t i = 0; i + 1 < widths.size(); ++i)
      layers.emplace_back(
          register_module("linear" + std::to_string(i), nn::Linear(widths[i], widths[i + 1])));
  }
  at::Tensor forward(at::Tensor x) override {
    x = x.flatten(1);
    for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i](i == 0 ? x : F::relu(x));
    return x;
  }
  std::vector<nn::Linear> layers;
};

std::shared_ptr<models::Network> mlp(const std::vector<std::int64_t>& widths) {
  return std::make_shared<Mlp>(widths);
}

bool take_suffix(std::string& name, const std::string& suffix) {
  if (!name.ends_with(suffix)) return false;
  name.resize(name.size() - suffix.size());
  return true;
}

Model of(const std::shared_ptr<models::Network>& net, std::vector<std::int64_t> shape,
         std::int64_t batch_size) {
  return {net,        [net](at::Tensor x) { return net->forward(std::move(x)); },
          nullptr,    std::move(shape),
          batch_size, at::MemoryFormat::Contiguous,
          false};
}

}  // namespace

Model make_model(const std::string& name_and_settings) {
  std::string name = name_and_settings;
  const bool bf16 = take_suffix(name, "+bf16"), channels_last = take_suffix(name, "+channels_last");
  Model model;
  if (name == "convnet") model = of(models::convnet(), {1, 28, 28}, 100);
  if (name == "wide_mlp") model = of(mlp({784, 2048, 2048, 10}), {1, 28, 28}, 64);
  if (name == "tiny_mlp") model = of(mlp({784, 128, 10}), {1, 28, 28}, 64);
  if (name == "resnet18") model = of(models::resnet18(10), {3, 32, 32}, 8);
  if (name == "cifar_resnet18") model = of(models::cifar_resnet18(10), {3, 32, 32}, 64);
  if (model.module == nullptr) exit_with(Error{ErrorKind::kUsage, "no model '" + name + "'"});
  model.bf16 = bf16;
  if (channels_last) {
    models::to_channels_last(*model.module);
    model.format = at::MemoryFormat::ChannelsLast;
  }
  if (name == "resnet18" || name == "cifar_resnet18")
    model.optimizer = std::make_unique<Adam>(model.module->parameters(), AdamOptions{.lr = 1e-3});
  else
    model.optimizer = std::make_unique<SGD>(model.module->parameters(),
                                            SGDOptions{.lr = name == "convnet" ? 1e-4 : 1e-2});
  return model;
}

}  // namespace lockstep::bench
