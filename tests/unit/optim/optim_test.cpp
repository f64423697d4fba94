#include "lockstep/optim.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>

namespace lockstep {
namespace {

std::vector<at::Tensor> parameters() { return {at::zeros({2})}; }
std::string said(const Status& status) { return status.ok() ? "" : status.error().message; }

// The words before the semicolon are those of torch.optim's ValueErrors.
TEST(Optimizers, RefuseWhatTorchOptimRefuses) {
  const auto sgd = [](SGDOptions options) { return said(SGD(parameters(), options).check()); };
  EXPECT_EQ(sgd({}), "");
  EXPECT_EQ(sgd({.momentum = 0.9, .nesterov = true}), "");
  EXPECT_EQ(sgd({.lr = -1}), "Invalid learning rate: -1; a finite number, at least 0");
  EXPECT_EQ(sgd({.momentum = -0.5}), "Invalid momentum value: -0.5; a finite number, at least 0");
  EXPECT_EQ(sgd({.weight_decay = NAN}),
            "Invalid weight_decay value: nan; a finite number, at least 0");
  EXPECT_EQ(sgd({.nesterov = true}), "Nesterov momentum requires a momentum and zero dampening");
  EXPECT_EQ(sgd({.momentum = 0.9, .dampening = 0.1, .nesterov = true}),
            "Nesterov momentum requires a momentum and zero dampening");

  const auto adam = [](AdamOptions options) { return said(Adam(parameters(), options).check()); };
  EXPECT_EQ(adam({}), "");
  EXPECT_EQ(adam({.lr = INFINITY}), "Invalid learning rate: inf; a finite number, at least 0");
  EXPECT_EQ(adam({.beta1 = 1}), "Invalid beta parameter at index 0: 1; at least 0, below 1");
  EXPECT_EQ(adam({.beta2 = -0.1}), "Invalid beta parameter at index 1: -0.1; at least 0, below 1");
  EXPECT_EQ(adam({.eps = -1e-8}), "Invalid epsilon value: -1e-08; a finite number, at least 0");
}

TEST(Optimizers, AParameterGivenTwiceIsUpdatedOnce) {
  at::Tensor p = at::ones({2}, at::requires_grad());
  p.mutable_grad() = at::ones({2});
  SGD optimizer({p, p}, {.lr = 0.25});
  optimizer.step();
  EXPECT_EQ(p[0].item<float>(), 0.75F);
}

TEST(Optimizers, GroupsHaveTheirOwnRates) {
  const std::vector<at::Tensor> p = parameters(), q = parameters();
  SGD optimizer({{p, {.lr = 0.5}}, {q, {.lr = 0.25}}});
  const std::uint64_t before = optimizer.rates_hash();
  optimizer.set_lr(1, 0.125);
  EXPECT_EQ(optimizer.lr(0), 0.5);
  EXPECT_EQ(optimizer.lr(1), 0.125);
  EXPECT_NE(optimizer.rates_hash(), before);
  optimizer.set_lr(2);
  EXPECT_EQ(optimizer.lr(1), 2);
  EXPECT_EQ(said(SGD({{p, {}}, {p, {}}}).check()),
            "some parameters appear in more than one parameter group");
  EXPECT_EQ(said(SGD(std::vector<at::Tensor>(), {}).check()),
            "optimizer got an empty parameter list");
  EXPECT_EQ(said(SGD({{p, {}}, {q, {.momentum = -1}}}).check()),
            "Invalid momentum value: -1; a finite number, at least 0");
}

// Bit for bit as a new optimizer with the rate of now.
template <class Kind, class Options>
void expect_begins_anew(const Options& options) {
  at::Tensor used = at::ones({3}), fresh = at::ones({3});
  Kind optimizer({used}, options);
  used.mutable_grad() = at::tensor({0.5F, -1.0F, 2.0F});
  for (int i = 0; i < 3; ++i) optimizer.step();
  optimizer.set_lr(0.25);
  fresh.copy_(used);
  optimizer.reset_state();
  Kind anew({fresh}, options);
  anew.set_lr(0.25);
  used.mutable_grad() = at::tensor({1.0F, 0.0F, -3.0F});
  fresh.mutable_grad() = used.grad().clone();
  for (int i = 0; i < 2; ++i) {
    optimizer.step();
    anew.step();
  }
  EXPECT_TRUE(at::equal(used, fresh)) << used << fresh;
  EXPECT_EQ(optimizer.lr(), 0.25);
}

TEST(Optimizers, BeginAnewWhenTheirStateIsReset) {
  expect_begins_anew<SGD>(SGDOptions{.momentum = 0.9, .dampening = 0.5});
  expect_begins_anew<Adam>(AdamOptions{.amsgrad = true});
  expect_begins_anew<AdamW>(AdamWOptions{});
}

TEST(Optimizers, ARateSetLaterIsCheckedToo) {
  SGD optimizer(parameters(), {});
  optimizer.set_lr(-2);
  EXPECT_EQ(said(optimizer.check()), "Invalid learning rate: -2; a finite number, at least 0");
}

}  // namespace
}  // namespace lockstep
