// Large parameters are updated piece by piece; the bits are those of whole calls of ATen
// (docs/design/arithmetic.md has the formulas).
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/ScalarOps.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "lockstep/optim.h"

namespace lockstep {
namespace {

constexpr int kSteps = 3;

at::Tensor& multiply(at::Tensor& t, double number) {
  return t.mul_(at::native::wrapped_scalar_tensor(number));
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.strides() == b.strides() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

at::Tensor whole_adam(at::Tensor p, const std::vector<at::Tensor>& gradients,
                      const AdamOptions& o) {
  at::Tensor m = at::zeros_like(p), v = at::zeros_like(p), most = at::zeros_like(p);
  for (int t = 1; t <= kSteps; ++t) {
    at::Tensor g = gradients[static_cast<std::size_t>(t - 1)];
    if (o.decoupled_weight_decay)
      multiply(p, 1 - o.lr * o.weight_decay);
    else if (o.weight_decay != 0)
      g = g.add(p, o.weight_decay);
    m.lerp_(g, 1 - o.beta1);
    multiply(v, o.beta2).addcmul_(g, g, 1 - o.beta2);
    if (o.amsgrad) at::maximum_out(most, most, v);
    const at::Tensor d =
        ((o.amsgrad ? most : v).sqrt() / std::sqrt(1 - std::pow(o.beta2, t))).add_(o.eps);
    p.addcdiv_(m, d, -(o.lr / (1 - std::pow(o.beta1, t))));
  }
  return p;
}

at::Tensor whole_sgd(at::Tensor p, const std::vector<at::Tensor>& gradients, const SGDOptions& o) {
  at::Tensor buffer;
  for (at::Tensor g : gradients) {
    if (o.weight_decay != 0) g = g.add(p, o.weight_decay);
    if (o.momentum != 0) {
      if (buffer.defined())
        multiply(buffer, o.momentum).add_(g, 1 - o.dampening);
      else
        buffer = g.clone();
      g = o.nesterov ? g.add(buffer, o.momentum) : buffer;
    }
    p.add_(g, -o.lr);
  }
  return p;
}

template <class Optimizer, class Options>
at::Tensor ours(const at::Tensor& start, const std::vector<at::Tensor>& gradients,
                const Options& options) {
  at::Tensor p = start.clone().requires_grad_();
  Optimizer optimizer(std::vector<at::Tensor>{p}, options);
  for (const at::Tensor& gradient : gradients) {
    p.mutable_grad() = gradient.clone();
    optimizer.step();
  }
  return p.detach();
}

void expect_same(const at::Tensor& start) {
  std::vector<at::Tensor> gradients;
  for (int t = 0; t < kSteps; ++t) gradients.push_back(at::randn_like(start));
  for (const AdamOptions& o :
       {AdamOptions{}, AdamOptions{.weight_decay = 0.1, .amsgrad = true},
        AdamOptions{.lr = 0.1, .weight_decay = 0.1, .decoupled_weight_decay = true}})
    EXPECT_TRUE(same_bits(ours<Adam>(start, gradients, o), whole_adam(start.clone(), gradients, o)))
        << start.sizes() << " by " << at::get_num_threads() << " threads";
  for (const SGDOptions& o :
       {SGDOptions{.lr = 0.1}, SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01},
        SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}})
    EXPECT_TRUE(same_bits(ours<SGD>(start, gradients, o), whole_sgd(start.clone(), gradients, o)))
        << start.sizes() << " by " << at::get_num_threads() << " threads";
}

class Pieces : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { at::set_num_threads(GetParam()); }
  void TearDown() override { at::set_num_threads(before_); }
  const int before_ = at::get_num_threads();
};
INSTANTIATE_TEST_SUITE_P(Threads, Pieces, testing::Values(1, 2, 3));

TEST_P(Pieces, EveryLengthAroundAPieceHasTheBitsOfWholeCalls) {
  at::manual_seed(1);
  constexpr std::int64_t kPiece = 1 << 15;
  for (const std::int64_t pieces : {1, 2, 5})
    for (const std::int64_t rest : {-17, -1, 0, 1, 7, 8, 33}) {
      expect_same(at::randn({pieces * kPiece + rest}));
      expect_same(at::randn({pieces * kPiece + rest}).to(at::kBFloat16));
    }
}

TEST_P(Pieces, SoDoOtherMemoryFormatsAndThoseThatHaveNone) {
  at::manual_seed(2);
  expect_same(at::randn({64, 67, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast));
  expect_same(at::randn({301, 207}).t());
}

// A gradient that lies otherwise than its parameter.
TEST_P(Pieces, AGradientOfAnotherLayoutIsTakenByPlace) {
  at::manual_seed(3);
  const at::Tensor start = at::randn({301, 207});
  std::vector<at::Tensor> gradients, alike;
  for (int t = 0; t < kSteps; ++t) {
    gradients.push_back(at::randn({207, 301}).t());
    alike.push_back(gradients.back().contiguous());
  }
  const AdamOptions o;
  EXPECT_TRUE(at::equal(ours<Adam>(start, gradients, o), whole_adam(start.clone(), alike, o)));
}

}  // namespace
}  // namespace lockstep
