#include "checkpoint/manifest.h"

#include <gtest/gtest.h>

namespace lockstep::checkpoint {
namespace {

Manifest sample() {
  Manifest m;
  m.generation = 7;
  m.virtual_workers = 3;
  m.cursor = {100, 1, 40};
  m.run_identity = "0f0f";
  m.weights_sha256 = std::string(64, 'a');
  m.files = {{"model.safetensors", 1234, 0xfedcba9876543210}, {"state.json", 2, 1}};
  return m;
}

Manifest of_several() {
  Manifest m = sample();
  m.set_modules({{"generator", "", 12}, {"critic", "critic.", 8}, {"\u03b8", "\u03b8.", 0}});
  return m;
}

// The text with `from` replaced, sealed anew: what an attacker or another version would write.
std::string resealed(const std::string& from, const std::string& to,
                     const Manifest& manifest = sample()) {
  std::string text = to_json(manifest);
  text.resize(text.rfind(",\n \"xxh3\""));
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return seal(text.replace(at, from.size(), to));
}

TEST(Manifest, ComesBackAsItWas) {
  const auto back = parse_manifest(to_json(sample()));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*back, sample());
}

TEST(Manifest, HasAMapOfModulesFromVersion2On) {
  const std::string text = to_json(of_several());
  EXPECT_NE(text.find("\"version\": 2"), std::string::npos) << text;
  const auto back = parse_manifest(text);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*back, of_several());
  EXPECT_EQ(to_json(sample()).find("modules"), std::string::npos);
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"\"version\": 2", "\"version\": 1"},
      {"\"modules\"", "\"module\""},
      {"\"critic\"", "\"generator\""},
      {"\"tensors\": 8", "\"tensors\": -8"},
      {"\"tensors\": 8", "\"tensors\": 8,\n   \"more\": 1"},
      {"\"prefix\": \"critic.\"", "\"prefix\": 1"},
  };
  for (const auto& [from, to] : changes)
    EXPECT_FALSE(parse_manifest(resealed(from, to, of_several())).ok()) << from << " -> " << to;
  EXPECT_FALSE(parse_manifest(resealed("\"version\": 1", "\"version\": 2")).ok());
}

TEST(Manifest, EveryFlippedBitAndEveryCutIsSeen) {
  const std::string text = to_json(sample());
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(parse_manifest(text.substr(0, i)).ok()) << i;
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      EXPECT_FALSE(parse_manifest(changed).ok()) << i << " " << bit;
    }
  }
  EXPECT_FALSE(parse_manifest(text + "\n").ok());
}

TEST(Manifest, AnotherVersionIsToldApartFromDamage) {
  const auto back = parse_manifest(resealed("\"version\": 1", "\"version\": 3"));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->version, 3U);
}

TEST(Manifest, RefusesWhatItDidNotWriteEvenWithTheRightHash) {
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"lockstep-checkpoint", "other"},
      {"\"version\": 1", "\"version\": \"1\""},
      {"\"generation\": 7", "\"generation\": -7"},
      {"\"generation\": 7", "\"generation\": 7,\n \"generation\": 7"},
      {"\"generation\": 7", "\"generation\":  7"},
      {"\"generation\": 7", "\"generation\": 7,\n \"more\": 1"},
      {"\"virtual_workers\": 3", "\"virtual_workers\": 4294967296"},
      {"\"txn\": 100", "\"txn\": 1e2"},
      {"\"cursor\"", "\"curse\""},
      {"model.safetensors", "../model.safetensors"},
      {"model.safetensors", ".hidden"},
      {"model.safetensors", "manifest.json"},
      {"model.safetensors", "zzz"},
      {"fedcba9876543210", "fedcba987654321"},
      {"fedcba9876543210", "FEDCBA9876543210"},
      {"0f0f", "0f\\u0000f"},
  };
  for (const auto& [from, to] : changes) {
    const auto back = parse_manifest(resealed(from, to));
    EXPECT_FALSE(back.ok()) << from << " -> " << to;
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
