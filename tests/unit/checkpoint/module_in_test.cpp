#include "checkpoint/module_in.h"

#include <gtest/gtest.h>

namespace lockstep::checkpoint {
namespace {

std::vector<TensorInfo> named(const std::vector<std::string>& names) {
  std::vector<TensorInfo> infos;
  for (const std::string& name : names) infos.push_back({name, DType::kF32, {}});
  return infos;
}

Manifest with(std::vector<ModuleEntry> modules, const std::vector<std::string>& files = {}) {
  Manifest manifest;
  manifest.set_modules(std::move(modules));
  for (const std::string& file : files) manifest.files.push_back({file, 0, 0});
  return manifest;
}

std::string said(const Result<std::optional<ModulePlace>>& place) {
  if (!place.ok()) return place.error().message;
  if (!*place) return "none";
  return (*place)->part + " " + std::to_string((*place)->first) + " " +
         std::to_string((*place)->count) + " '" + (*place)->prefix + "'";
}

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

// The generator has a child that is called as the other module.
TEST(ModuleIn, TheMapTellsModulesApartWhateverTheirChildrenAreCalled) {
  const Manifest manifest =
      with({{"generator", "", 2}, {"critic", "critic.", 2}, {"own", "own.", 1}});
  const auto model = named({"w", "critic.x", "critic.w", "critic.b", "own.shift"});
  EXPECT_EQ(said(find_module(manifest, "generator", model)), "model 0 2 ''");
  EXPECT_EQ(said(find_module(manifest, "critic", model)), "model 2 2 'critic.'");
  EXPECT_EQ(said(find_module(manifest, "own", model)), "model 4 1 'own.'");
}

TEST(ModuleIn, AnUnknownNameListsThoseThereAre) {
  const Manifest manifest = with({{"generator", "", 1}, {"critic", "critic.", 1}});
  const std::string text = said(find_module(manifest, "generater", named({"w", "critic.w"})));
  EXPECT_TRUE(has(text,
                  "no module 'generater'; the nearest: 'generator'; it has: 'generator', "
                  "'critic'"))
      << text;
  EXPECT_TRUE(has(said(find_module(manifest, "", named({"w", "critic.w"}))), "no module ''"));
}

TEST(ModuleIn, AMapThatIsNotOfTheWeightsIsRefused) {
  const auto model = named({"w", "critic.w"});
  EXPECT_TRUE(has(said(find_module(with({{"a", "", 3}}), "a", model)), "more tensors than"));
  EXPECT_TRUE(has(said(find_module(with({{"a", "", 1}, {"b", "b.", ~0ULL}}), "b", model)),
                  "more tensors than"));
  EXPECT_TRUE(has(said(find_module(with({{"a", "", 1}, {"b", "b.", 1}}), "b", model)),
                  "says that 'critic.w' is of 'b'"));
}

TEST(ModuleIn, WithoutAMapNamesTell) {
  const auto model = named({"w", "critic.w", "critic.b", "critics"});
  const Manifest plain = with({}, {"model.safetensors", "optimizer.safetensors"});
  EXPECT_EQ(said(find_module(plain, "critic", model)), "model 1 2 'critic.'");
  EXPECT_EQ(said(find_module(plain, "generator", model)), "none");
  EXPECT_EQ(said(find_module(plain, "model", model)), "none");
  EXPECT_TRUE(has(said(find_module(plain, "optimizer", {})), "optimizer 0 "));
  const Manifest both = with({}, {"critic.safetensors", "model.safetensors"});
  EXPECT_TRUE(has(said(find_module(both, "critic", model)), "ambiguous"));
  EXPECT_TRUE(
      has(said(find_module(plain, "critic", named({"critic.a", "w", "critic.b"}))), "ambiguous"));
}

}  // namespace
}  // namespace lockstep::checkpoint
