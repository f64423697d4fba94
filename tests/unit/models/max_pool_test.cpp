// Ours beside libtorch's max_pool2d: the same bits, forward and backward.
#include "models/max_pool.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional/pooling.h>
#include <torch/nn/modules/container/sequential.h>

#include <cstring>
#include <limits>

namespace lockstep::models {
namespace {

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.dtype() == b.dtype() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

struct Both {
  at::Tensor out, gradient;
};

// `along`: what comes back from above.
template <class Pool>
Both run(const at::Tensor& pictures, const at::Tensor& along, Pool pool) {
  const at::Tensor leaf = pictures.detach().clone().requires_grad_();
  const at::Tensor out = pool(leaf);
  return {out.detach(), torch::autograd::grad({out}, {leaf}, {along})[0]};
}

void expect_same(const at::Tensor& pictures, const at::Tensor& along) {
  MaxPool2d pool = halving_max_pool();
  const Both ours = run(pictures, along, [&](const at::Tensor& x) { return pool(x); });
  const Both theirs = run(pictures, along, [](const at::Tensor& x) {
    return at::max_pool2d(x, {2, 2}, {2, 2});
  });
  EXPECT_TRUE(same_bits(ours.out, theirs.out)) << pictures.sizes();
  EXPECT_TRUE(same_bits(ours.gradient, theirs.gradient)) << pictures.sizes();
}

at::Tensor half_of(const at::Tensor& pictures) {
  std::vector<std::int64_t> shape = pictures.sizes().vec();
  shape[shape.size() - 2] /= 2;
  shape.back() /= 2;
  return at::randn(shape, pictures.options());
}

TEST(MaxPool, EverySizeHasLibtorchsBits) {
  at::manual_seed(1);
  for (std::int64_t height = 2; height <= 9; ++height)
    for (std::int64_t width = 2; width <= 40; ++width) {
      const at::Tensor pictures = at::randn({2, 3, height, width});
      expect_same(pictures, half_of(pictures));
    }
}

// Whole numbers: most windows have ties, as behind a ReLU.
TEST(MaxPool, TiesNanInfinityAndNegativeZeroGoWhereLibtorchPutsThem) {
  at::manual_seed(2);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const at::Tensor odd =
      at::tensor({0.0F, -0.0F, kInf, -kInf, 1.0F, std::numeric_limits<float>::quiet_NaN()});
  for (int round = 0; round < 50; ++round) {
    expect_same(at::randint(-2, 3, {3, 4, 14, 22}).to(at::kFloat), at::randn({3, 4, 7, 11}));
    const at::Tensor pictures =
        odd.index_select(0, at::randint(6, {3 * 4 * 14 * 22})).reshape({3, 4, 14, 22});
    expect_same(pictures, -at::zeros({3, 4, 7, 11}));
    expect_same(pictures,
                odd.index_select(0, at::randint(6, {3 * 4 * 7 * 11})).reshape({3, 4, 7, 11}));
  }
}

TEST(MaxPool, SeveralThreadsAndOnePictureWithoutABatch) {
  at::manual_seed(3);
  const int threads = at::get_num_threads();
  at::set_num_threads(3);
  const at::Tensor pictures = at::randn({7, 16, 28, 28});
  expect_same(pictures, half_of(pictures));
  at::set_num_threads(threads);
  expect_same(at::randn({5, 8, 8}), at::randn({5, 4, 4}));
}

TEST(MaxPool, WhatIsNotOursIsLibtorchs) {
  at::manual_seed(4);
  const at::Tensor pictures = at::randn({2, 8, 6, 10});
  expect_same(pictures.contiguous(at::MemoryFormat::ChannelsLast), at::randn({2, 8, 3, 5}));
  expect_same(pictures.transpose(2, 3), at::randn({2, 8, 5, 3}));
  for (const auto dtype : {at::kDouble, at::kBFloat16})
    expect_same(pictures.to(dtype), at::randn({2, 8, 3, 5}).to(dtype));
  MaxPool2d pool = halving_max_pool();
  EXPECT_THROW(pool(at::randn({2, 8, 1, 10})), c10::Error);
}

// The gradient that comes back need not be contiguous.
TEST(MaxPool, AnExpandedGradientIsTakenAsItIs) {
  at::manual_seed(5);
  expect_same(at::randn({2, 4, 8, 8}), at::randn({1, 1, 4, 4}).expand({2, 4, 4, 4}));
}

TEST(MaxPool, SecondDerivativesAreLibtorchs) {
  at::manual_seed(6);
  const at::Tensor pictures = at::randn({1, 2, 4, 6});
  const auto penalty = [&](auto pool) {
    const at::Tensor leaf = pictures.clone().requires_grad_();
    const at::Tensor out = pool(leaf);
    const at::Tensor first =
        torch::autograd::grad({out.square().sum()}, {leaf}, {}, std::nullopt, true)[0];
    return torch::autograd::grad({first.square().sum()}, {leaf})[0];
  };
  MaxPool2d pool = halving_max_pool();
  const at::Tensor ours = penalty([&](const at::Tensor& x) { return pool(x); });
  EXPECT_GT(ours.abs().sum().item<float>(), 0);
  EXPECT_TRUE(same_bits(ours, penalty([](const at::Tensor& x) {
                          return at::max_pool2d(x, {2, 2}, {2, 2});
                        })));
}

TEST(MaxPool, OtherOptionsAreLibtorchs) {
  at::manual_seed(7);
  const at::Tensor pictures = at::randn({2, 3, 9, 11});
  for (const auto& options :
       {torch::nn::MaxPool2dOptions(3).stride(2).padding(1),
        torch::nn::MaxPool2dOptions(2).stride(1), torch::nn::MaxPool2dOptions(2).ceil_mode(true),
        torch::nn::MaxPool2dOptions(2).dilation(2), torch::nn::MaxPool2dOptions({2, 3})}) {
    MaxPool2d ours(options);
    torch::nn::MaxPool2d theirs(options);
    EXPECT_TRUE(same_bits(ours(pictures), theirs(pictures)));
  }
}

TEST(MaxPool, ASequentialWithItCanBeCloned) {
  torch::nn::Sequential layers;
  layers->push_back(halving_max_pool());
  const auto copy = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(layers->clone());
  const at::Tensor pictures = at::randn({1, 2, 4, 6});
  EXPECT_TRUE(same_bits(copy->forward(pictures), layers->forward(pictures)));
}

}  // namespace
}  // namespace lockstep::models
