// The two networks of the GAN, and what both are judged by.
#pragma once

#include <ATen/Functions.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

inline constexpr std::int64_t kNoise = 32, kPixels = 28 * 28;

struct GeneratorImpl : torch::nn::Module {
  GeneratorImpl() {
    hidden = register_module("hidden", torch::nn::Linear(kNoise, 128));
    norm = register_module("norm", torch::nn::BatchNorm1d(128));
    pixels = register_module("pixels", torch::nn::Linear(128, kPixels));
  }
  at::Tensor forward(const at::Tensor& noise) {
    return at::tanh(pixels(at::relu(norm(hidden(noise)))));
  }
  torch::nn::Linear hidden{nullptr}, pixels{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Generator);

struct DiscriminatorImpl : torch::nn::Module {
  DiscriminatorImpl() {
    hidden = register_module("hidden", torch::nn::Linear(kPixels, 128));
    real = register_module("real", torch::nn::Linear(128, 1));
  }
  at::Tensor forward(const at::Tensor& pixels) { return real(at::leaky_relu(hidden(pixels), 0.2)); }
  torch::nn::Linear hidden{nullptr}, real{nullptr};
};
TORCH_MODULE(Discriminator);

inline at::Tensor loss_against(const at::Tensor& scores, double target) {
  return torch::nn::functional::binary_cross_entropy_with_logits(scores,
                                                                 at::full_like(scores, target));
}
