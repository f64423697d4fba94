#include "lockstep/state.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <memory>

#include "transaction/state_image.h"

namespace lockstep {
namespace {

struct Net : torch::nn::Module {
  explicit Net(double value) {
    w = register_parameter("w", at::full({3, 2}, value));
    strided = register_parameter("strided", at::full({4, 5}, value).t());
    count = register_buffer("count", at::full({}, 7, at::kLong));
  }
  at::Tensor w, strided, count;
};

struct Kit {
  explicit Kit(double value)
      : net(value), adam({net.w, net.strided}, {.lr = value}), text("at " + std::to_string(value)) {
    EXPECT_TRUE(state.add("model", net).ok());
    EXPECT_TRUE(state.add("optimizer", adam).ok());
    EXPECT_TRUE(state
                    .add({"note", [this] { return text; },
                          [this](const std::string& loaded) {
                            text = loaded;
                            return Status();
                          }})
                    .ok());
  }
  Net net;
  Adam adam;
  std::string text;
  TrainState state;
};

TEST(TrainState, AnImageCarriesEverything) {
  Kit from(0.25), to(0.5);
  ASSERT_NE(from.state.sha256(), to.state.sha256());
  ASSERT_EQ(transaction::image_bytes(from.state), transaction::image_bytes(to.state));
  std::vector<std::byte> image(transaction::image_bytes(from.state));
  const void* address = to.net.w.data_ptr();
  ASSERT_TRUE(transaction::store_image(from.state, image).ok());
  const auto texts = transaction::load_tensors(to.state, image);
  ASSERT_TRUE(texts.ok());
  EXPECT_NE(to.text, from.text);  // not before the copy is known to be whole
  ASSERT_TRUE(transaction::load_texts(to.state, *texts).ok());
  EXPECT_EQ(to.state.sha256(), from.state.sha256());
  EXPECT_EQ(to.net.w.data_ptr(), address);
  EXPECT_EQ(to.adam.lr(), 0.25);
  EXPECT_EQ(to.text, from.text);
}

TEST(TrainState, WhatHoldsAPartIsThatPart) {
  torch::nn::Linear net(2, 1), none{nullptr};
  const auto critic = std::make_shared<Net>(1);
  auto optimizer = std::make_unique<SGD>(net->parameters(), SGDOptions{.lr = 0.1});
  TrainState state;
  ASSERT_TRUE(state.add("net", net).ok());
  ASSERT_TRUE(state.add("critic", critic).ok());
  ASSERT_TRUE(state.add("optimizer", optimizer).ok());
  std::string names;
  for (const auto& named : state.model()) names += named.name + " ";
  EXPECT_EQ(names, "weight bias critic.w critic.strided critic.count ");
  EXPECT_EQ(state.optimizers().front(), optimizer.get());
  const Status empty = state.add("none", none);
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.error().kind, ErrorKind::kUsage);
  EXPECT_NE(empty.error().message.find("'none' is a module holder or a pointer that is empty"),
            std::string::npos);
}

// Each module's own parameters and buffers, then its children's: not all buffers last.
TEST(TrainState, TheModelIsInPythonsOrder) {
  struct Outer : torch::nn::Module {
    Outer() {
      first = register_module("first", std::make_shared<Net>(1));
      scale = register_parameter("scale", at::ones({1}));
      second = register_module("second", std::make_shared<Net>(2));
    }
    std::shared_ptr<Net> first, second;
    at::Tensor scale;
  } outer;
  std::string listed, kept;
  for (const auto& [name, _] : state_dict(outer)) listed += name + " ";
  EXPECT_EQ(listed,
            "scale first.w first.strided first.count second.w second.strided second.count ");
  TrainState state;
  ASSERT_TRUE(state.add("model", outer).ok());
  for (const auto& named : state.model()) kept += named.name + " ";
  EXPECT_EQ(kept, listed);
}

TEST(TrainState, TheHashOfTheWeightsSeesWeightsAndBuffersOnly) {
  Kit kit(0.25);
  const std::string before = kit.state.weights_sha256(), all = kit.state.sha256();
  kit.adam.set_lr(0.125);
  EXPECT_EQ(kit.state.weights_sha256(), before);
  EXPECT_NE(kit.state.sha256(), all);
  kit.net.count.fill_(8);
  EXPECT_NE(kit.state.weights_sha256(), before);
}

TEST(TrainState, ANameIsGivenOnce) {
  Kit kit(0.25);
  Net other(1);
  EXPECT_FALSE(kit.state.add("model", other).ok());
  EXPECT_TRUE(kit.state.add("other", other).ok());
  // Two modules, and tensors of equal full names: the first module has no prefix.
  struct Dotted : torch::nn::Module {
    Dotted() { register_module("x", std::make_shared<Net>(1)); }
  } dotted;
  TrainState state;
  EXPECT_TRUE(state.add("model", dotted).ok());
  EXPECT_FALSE(state.add("x", *dotted.named_children()["x"]).ok());
  EXPECT_NE(kit.state.signature().find("other.w [3, 2] Float"), std::string::npos)
      << kit.state.signature();
}

TEST(TrainState, AnOptimizerAndAScheduleAreThereOnce) {
  at::Tensor w = at::ones({2});
  SGD optimizer({w}, {.lr = 0.1});
  StepLR scheduler(optimizer, 2);
  TrainState state;
  EXPECT_TRUE(state.add("a", optimizer).ok());
  EXPECT_TRUE(state.add("b", scheduler).ok());
  EXPECT_EQ(state.add("c", optimizer).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(state.add("d", scheduler).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(state.optimizers().size(), 1U);
  EXPECT_EQ(state.schedulers().size(), 1U);
}

TEST(TrainState, ATextThatDoesNotFitIsRefusedAndWritesNothingBehindTheImage) {
  Kit kit(0.25);
  std::vector<std::byte> memory(transaction::image_bytes(kit.state) + 1024, std::byte{0x5a});
  kit.text.assign(2'000'000, 'x');
  const Status stored = transaction::store_image(
      kit.state, std::span(memory).first(transaction::image_bytes(kit.state)));
  ASSERT_FALSE(stored.ok());
  EXPECT_NE(stored.error().message.find("note"), std::string::npos) << stored.error().message;
  for (std::size_t i = transaction::image_bytes(kit.state); i < memory.size(); ++i)
    ASSERT_EQ(memory[i], std::byte{0x5a});
}

TEST(TrainState, ATextOfTheProgramsIsComparedAsTensorsAre) {
  TrainState state;
  torch::nn::Linear linear(2, 1);
  std::string own = "1", librarys = "1";
  const auto load = [](const std::string&) { return Status(); };
  ASSERT_TRUE(state.add("model", *linear).ok());
  ASSERT_TRUE(state.add({"count", [&] { return own; }, load}).ok());
  ASSERT_TRUE(state.add({"lockstep.x", [&] { return librarys; }, load}).ok());
  ASSERT_EQ(state.part_count(), 3);
  const std::vector<std::uint64_t> before = state.hashes();
  librarys = "2";
  EXPECT_EQ(state.hashes(), before);
  own = "2";
  const std::vector<std::uint64_t> after = state.hashes();
  ASSERT_EQ(after.size(), 3);
  EXPECT_EQ(after[1], before[1]);
  EXPECT_NE(after[2], before[2]);
  EXPECT_EQ(state.part_in_words(2), "the text 'count'");
}

// Times differ from run to run, its hash does not.
TEST(TrainState, ATextThatIsNotHashedIsInNoHash) {
  Kit kit(0.25);
  const std::string before = kit.state.sha256();
  const auto text = [](const std::string& name, bool hashed) {
    return TrainState::Text{name, [] { return std::string("12.5 s"); },
                            [](const std::string&) { return Status(); }, hashed};
  };
  ASSERT_TRUE(kit.state.add(text("times", false)).ok());
  EXPECT_EQ(kit.state.sha256(), before);
  ASSERT_TRUE(kit.state.add(text("other", true)).ok());
  EXPECT_NE(kit.state.sha256(), before);
}

TEST(TrainState, ABadImageIsRefused) {
  Kit kit(0.25);
  std::vector<std::byte> image(transaction::image_bytes(kit.state), std::byte{0xff});
  EXPECT_FALSE(transaction::load_tensors(kit.state, image).ok());
}

}  // namespace
}  // namespace lockstep
