#include "train/manifest.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

Manifest sample() {
  Manifest manifest;
  manifest.set("lr", "0.1");
  manifest.set("virtual_workers", 3);
  return manifest;
}

TEST(Manifest, ReadsBackWhatItWrote) {
  const auto again = Manifest::parse(sample().json());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->json(), sample().json());
  EXPECT_EQ(*again->virtual_workers(), 3U);
  EXPECT_FALSE(Manifest().virtual_workers().ok());
}

TEST(Manifest, IdentityLeavesOutTheNumberOfVirtualWorkersAlone) {
  Manifest other = sample();
  other.set("virtual_workers", 4);
  EXPECT_EQ(other.identity(), sample().identity());
  other.set("lr", "0.2");
  EXPECT_NE(other.identity(), sample().identity());
}

TEST(Manifest, NamesTheFirstDifferenceWithBothValues) {
  Manifest other = sample();
  other.set("lr", "0.2");
  const Status status = other.same_as(sample(), "/runs/1");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
  for (const char* part : {"/runs/1", "lr", "0.1", "0.2", "--resume never"})
    EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
  EXPECT_TRUE(other.same_as(sample(), "/runs/1", "lr").ok());
}

TEST(Manifest, BadBytesAreBadData) {
  for (const char* text : {"", "{", "[]", "{\"lr\":1}", "null"}) {
    const auto parsed = Manifest::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kBadData) << text;
  }
}

}  // namespace
}  // namespace lockstep::train
