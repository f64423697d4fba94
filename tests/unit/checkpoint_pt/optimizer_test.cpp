// Optimizers' states in .pt files: half of a course here and half in Python, either first, is the
// whole course in one place, to the last bit (optimizer_peer.py).
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "lockstep/checkpoint.h"
#include "lockstep/optim.h"
#include "support/python.h"
#include "support/temp_folder.h"

namespace lockstep {
namespace {

using Tensors = std::vector<at::Tensor>;
using Make = std::function<std::unique_ptr<Optimizer>(const Tensors&)>;

constexpr int kHalf = 3, kWhole = 6;

template <class T, class Options>
Make one_group(Options options) {
  return [=](const Tensors& p) { return std::make_unique<T>(p, options); };
}

template <class T, class Options>
Make two_groups(Options first, Options second) {
  return [=](const Tensors& p) {
    return std::make_unique<T>(
        std::vector<ParamGroup<Options>>{{{p[0], p[2]}, first}, {{p[1]}, second}});
  };
}

// As CASES of optimizer_peer.py.
const std::vector<std::pair<std::string, Make>>& cases() {
  static const std::vector<std::pair<std::string, Make>> all{
      {"sgd", one_group<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9})},
      {"sgd-nesterov", one_group<SGD>(SGDOptions{
                           .lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true})},
      {"sgd-groups", two_groups<SGD>(SGDOptions{.lr = 0.1},
                                     SGDOptions{.lr = 0.01, .momentum = 0.8, .dampening = 0.5})},
      {"adam", one_group<Adam>(AdamOptions{.lr = 1e-2, .weight_decay = 0.1})},
      {"adam-groups",
       two_groups<Adam>(AdamOptions{.lr = 1e-2, .amsgrad = true},
                        AdamOptions{.lr = 1e-3, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6})},
      {"adamw", one_group<AdamW>(AdamWOptions{.lr = 1e-2})},
      {"adamw-groups", two_groups<AdamW>(AdamWOptions{.lr = 1e-2, .weight_decay = 0.05},
                                         AdamWOptions{.lr = 1e-3, .amsgrad = true})}};
  return all;
}

// The third is frozen: it never has a gradient.
Tensors parameters() {
  at::manual_seed(0);
  return {at::randn({7, 5}), at::randn({3}), at::randn({2})};
}

void train(const Tensors& p, Optimizer& optimizer, int from, int to) {
  for (int step = from; step < to; ++step) {
    at::manual_seed(static_cast<std::uint64_t>(100 + step));
    p[0].mutable_grad() = at::randn({7, 5});
    p[1].mutable_grad() = step == 1 ? at::Tensor() : at::randn({3});
    const std::size_t last = optimizer.groups() - 1;
    if (step == 2) optimizer.set_lr(last, optimizer.lr(last) / 3);
    optimizer.step();
  }
}

Tensors trained(const Make& make, int steps) {
  Tensors p = parameters();
  train(p, *make(p), 0, steps);
  return p;
}

NamedTensors named(const Tensors& p) { return {{"p0", p[0]}, {"p1", p[1]}, {"p2", p[2]}}; }

Tensors tensors_in(const std::string& path, const std::string& key) {
  const auto fields = load_pt(path);
  EXPECT_TRUE(fields.ok()) << fields.error().message;
  Tensors tensors;
  for (const auto& [name, value] : *fields)
    if (name == key)
      for (const auto& [_, tensor] : std::get<NamedTensors>(value)) tensors.push_back(tensor);
  EXPECT_EQ(tensors.size(), 3U) << path;
  return tensors;
}

bool equal(const Tensors& a, const Tensors& b) {
  return std::ranges::equal(a, b, [](auto& x, auto& y) { return at::equal(x, y); });
}

Tensors gone_on_from(const std::string& path, const Make& make) {
  Tensors p = tensors_in(path, "MODEL_STATE");
  const auto optimizer = make(p);
  optimizer->set_lr(7);  // the file's counts
  const Status loaded = load_state_dict(*optimizer, path, "OPTIMIZER_STATE");
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  train(p, *optimizer, kHalf, kWhole);
  return p;
}

TEST(OptimizerPt, HalfHereAndHalfInPythonIsTheWhole) {
  const std::string interpreter = test::python_with("torch");
  if (interpreter.empty()) GTEST_SKIP() << "no Python with torch; set LOCKSTEP_PYTHON";
  at::set_num_threads(1);
  const test::TempFolder folder;
  for (const auto& [name, make] : cases()) {
    const Tensors p = parameters();
    const auto optimizer = make(p);
    train(p, *optimizer, 0, kHalf);
    const Status saved = save_pt(
        folder / (name + "-ours.pt"),
        {{"MODEL_STATE", named(p)}, {"OPTIMIZER_STATE", optimizer->state_dict()}, {"EPOCH", 3}});
    ASSERT_TRUE(saved.ok()) << saved.error().message;
  }
  const std::string peer = interpreter + " " + LOCKSTEP_OPTIMIZER_PEER + " " + folder.path();
  ASSERT_EQ(test::output_of(peer + " 2>&1"), "7 gone on from\n");
  for (const auto& [name, make] : cases()) {
    const Tensors whole = trained(make, kWhole);
    EXPECT_FALSE(equal(whole, trained(make, kHalf)));
    EXPECT_TRUE(equal(tensors_in(folder / (name + "-whole.pt"), "MODEL_STATE"), whole)) << name;
    for (const char* form : {"-zip.pt", "-stream.pt", "-early.pt"})
      EXPECT_TRUE(equal(gone_on_from(folder / (name + form), make), whole)) << name << form;
  }
}

TEST(OptimizerPt, ComesBackFromOurOwnFile) {
  const test::TempFolder folder;
  for (const auto& [name, make] : cases()) {
    const Tensors p = parameters();
    const auto optimizer = make(p);
    train(p, *optimizer, 0, kHalf);
    ASSERT_TRUE(save_pt(folder / "s.pt",
                        {{"MODEL_STATE", named(p)}, {"OPTIMIZER_STATE", optimizer->state_dict()}})
                    .ok());
    EXPECT_TRUE(equal(gone_on_from(folder / "s.pt", make), trained(make, kWhole))) << name;
    const auto fields = load_pt(folder / "s.pt");
    ASSERT_TRUE(fields.ok());
    const auto& dict = std::get<OptimizerStateDict>(fields->at(1).second);
    EXPECT_EQ(dict.param_groups.size(), optimizer->groups());
    EXPECT_EQ(dict.param_groups[0].settings, optimizer->state_dict().param_groups[0].settings);
  }
}

TEST(OptimizerPt, WhatIsNoOptimizersStateIsSaid) {
  const test::TempFolder folder;
  const Tensors p = parameters();
  Adam optimizer(p, {});
  train(p, optimizer, 0, kHalf);
  ASSERT_TRUE(save_pt(folder / "s.pt", {{"MODEL_STATE", named(p)},
                                        {"EPOCH", 3},
                                        {"OPTIMIZER_STATE", optimizer.state_dict()}})
                  .ok());
  const auto says = [&](Optimizer& to, const std::string& key) {
    const Status loaded = load_state_dict(to, folder / "s.pt", key);
    return loaded.ok() ? "" : loaded.error().message;
  };
  const std::string file = "'" + folder / "s.pt" + "'";
  EXPECT_EQ(says(optimizer, "OPTIMIZER_STATE"), "");
  EXPECT_EQ(says(optimizer, "optimizer"), file + " has no 'optimizer'");
  EXPECT_EQ(says(optimizer, "MODEL_STATE"),
            file +
                ": an OrderedDict without 'state' and 'param_groups' stands where an optimizer's "
                "state_dict is due");
  EXPECT_NE(says(optimizer, "EPOCH").find(": an int"), std::string::npos);
  SGD sgd(p, {});
  EXPECT_EQ(says(sgd, "OPTIMIZER_STATE"),
            file +
                ": the state_dict is not of this optimizer: param_groups[0] has no 'momentum'; "
                "is it of another kind of optimizer?");
  const Status none = save_pt(folder / "t.pt", {{"OPTIMIZER_STATE", OptimizerStateDict()}});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace lockstep
