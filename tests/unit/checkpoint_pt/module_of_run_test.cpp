// load_state_dict() of one module out of a checkpoint of several.
#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "checkpoint/store.h"
#include "checkpoint/tensors.h"
#include "lockstep/checkpoint.h"
#include "support/temp_folder.h"

namespace lockstep {
namespace {

// Of a checkpoint with a map of its modules, and of one without.
TEST(ModuleOfARun, ComesFromACheckpointOfSeveral) {
  const lockstep::test::TempFolder folder;
  const auto one = torch::nn::Linear(3, 2), two = torch::nn::Linear(4, 1);
  CheckpointPart model{"model", {}};
  for (const auto& item : one->named_parameters())
    model.tensors.emplace_back(item.key(), item.value());
  for (const auto& item : two->named_parameters())
    model.tensors.emplace_back("two." + item.key(), item.value());
  const auto publish = [&](const std::string& run, std::vector<checkpoint::ModuleEntry> modules) {
    const auto sources = checkpoint::Sources::of({&model, 1});
    checkpoint::Image image;
    EXPECT_TRUE(sources.ok() && image.fill(sources->parts(), "{}").ok());
    checkpoint::Manifest manifest;
    manifest.cursor.txn = 1;
    manifest.set_modules(std::move(modules));
    EXPECT_TRUE(checkpoint::publish(
                    posix_env(), folder / run, manifest, image.files(),
                    [&] { return image.weights_sha256(); }, nullptr)
                    .ok());
  };
  publish("run", {{"one", "", 2}, {"two", "two.", 2}});
  publish("before", {});
  const auto said = [&](torch::nn::Linear to, const char* run, const char* key,
                        bool strict = true) {
    const auto loaded = lockstep::load_state_dict(*to, folder / run, key, {.strict = strict});
    return loaded.ok() ? "" : loaded.error().message;
  };
  const auto has = [](const std::string& text, const char* words) {
    return text.find(words) != std::string::npos ? "" : text;
  };
  const auto to_one = torch::nn::Linear(3, 2), to_two = torch::nn::Linear(4, 1);
  for (const char* run : {"run", "before"}) {
    EXPECT_EQ(said(to_two, run, "two"), "") << run;
    EXPECT_TRUE(at::equal(to_two->weight, two->weight));
    EXPECT_EQ(has(said(to_one, run, "two"), "module 'two': the state_dict is not of this model"),
              "");
    to_two->weight.detach().zero_();
  }
  EXPECT_EQ(said(to_one, "run", "one"), "");
  EXPECT_TRUE(at::equal(to_one->weight, one->weight));
  EXPECT_EQ(has(said(to_one, "run", "three"), "it has: 'one', 'two'"), "");
  EXPECT_EQ(has(said(to_one, "run", ""), "the key names one of them: 'one', 'two'"), "");
  EXPECT_EQ(has(said(to_one, "before", "one"), "no map of modules"), "");
  EXPECT_EQ(said(to_one, "before", "one", false), "");
  // What save_checkpoint() has as parts.
  std::vector<CheckpointPart> parts{{"one", {}}, {"two", {}}};
  for (const auto& item : one->named_parameters())
    parts[0].tensors.emplace_back(item.key(), item.value());
  for (const auto& item : two->named_parameters())
    parts[1].tensors.emplace_back(item.key(), item.value());
  ASSERT_TRUE(save_checkpoint(folder / "parts", parts, {.txn = 7}, "{}").ok());
  EXPECT_EQ(said(to_two, "parts", "two"), "");
  EXPECT_TRUE(at::equal(to_two->weight, two->weight));
  EXPECT_EQ(has(said(to_two, "parts", "three"), "no part 'model'"), "");
}

}  // namespace
}  // namespace lockstep
