#include "programs/models.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/functional/activation.h>

#include <chrono>
#include <cstdlib>
#include <thread>

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

// The number behind "+NAME=", which is taken off; 0: it is not there.
double take_number(std::string& name, const std::string& setting) {
  const std::size_t at = name.find(setting);
  if (at == std::string::npos) return 0;
  const double value = std::atof(name.c_str() + at + setting.size());
  name.resize(at);
  return value;
}

void sleep_ms(double ms) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
}

// One parameter's part of a backward pass: passes `before` on, and sleeps on the way back.
struct SleptLayer : torch::autograd::Function<SleptLayer> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& before,
                            const at::Tensor& parameter, double ms) {
    context->saved_data["parameter"] = parameter.detach();
    context->saved_data["ms"] = ms;
    return before.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& after) {
    sleep_ms(context->saved_data["ms"].toDouble());
    return {after[0], at::full_like(context->saved_data["parameter"].toTensor(), 1e-3), {}};
  }
};

// A third of the time is forward's, as it is of real networks.
at::Tensor slept_scores(const std::vector<at::Tensor>& parameters, std::int64_t batch, double ms) {
  sleep_ms(ms / 3);
  at::Tensor chain = at::zeros({1}).requires_grad_();
  const double each = ms * 2 / 3 / static_cast<double>(parameters.size());
  for (const at::Tensor& parameter : parameters) chain = SleptLayer::apply(chain, parameter, each);
  return chain.expand({batch, 10});
}

std::shared_ptr<models::Network> vgg19(std::int64_t classifier_width) {
  return models::vgg19({.num_classes = 10, .dropout = 0, .classifier_width = classifier_width});
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
  const double slept_ms = take_number(name, "+slept=");
  const bool bf16 = take_suffix(name, "+bf16"), channels_last = take_suffix(name, "+channels_last");
  Model model;
  if (name == "convnet") model = of(models::convnet(), {1, 28, 28}, 100);
  if (name == "wide_mlp") model = of(mlp({784, 2048, 2048, 10}), {1, 28, 28}, 64);
  if (name == "tiny_mlp") model = of(mlp({784, 128, 10}), {1, 28, 28}, 64);
  if (name == "resnet18") model = of(models::resnet18(10), {3, 32, 32}, 8);
  if (name == "cifar_resnet18") model = of(models::cifar_resnet18(10), {3, 32, 32}, 64);
  if (name == "vgg19") model = of(vgg19(4096), {3, 32, 32}, 8);
  if (name == "vgg19_quarter") model = of(vgg19(618), {3, 32, 32}, 8);
  if (model.module == nullptr) exit_with(Error{ErrorKind::kUsage, "no model '" + name + "'"});
  if (slept_ms > 0)
    model.forward = [parameters = model.module->parameters(), slept_ms](const at::Tensor& images) {
      return slept_scores(parameters, images.size(0), slept_ms);
    };
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
