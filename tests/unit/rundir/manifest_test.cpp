#include "rundir/manifest.h"

#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace lockstep::rundir {
namespace {

RunManifest sample() {
  RunManifest manifest;
  manifest.set("lr", "0.1");
  manifest.set("virtual_workers", 3);
  return manifest;
}

TEST(RunManifest, ReadsBackWhatItWrote) {
  const auto again = RunManifest::parse(sample().json());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->json(), sample().json());
  EXPECT_EQ(*again->virtual_workers(), 3U);
  EXPECT_FALSE(RunManifest().virtual_workers().ok());
}

TEST(RunManifest, BytesThatAreNotUtf8FindTheirOwnRunAgain) {
  RunManifest manifest = sample();
  manifest.set("class\xff", "caf\xe9");
  const auto again = RunManifest::parse(manifest.json());
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_TRUE(manifest.same_as(*again, "run").ok());
  EXPECT_EQ(again->identity(), manifest.identity());
  EXPECT_EQ(again->value("class\\xff"), "caf\\xe9");
}

TEST(RunManifest, TellsSomebodyElsesFileFromADamagedOne) {
  const test::TempFolder folder;
  const auto read = [&](const std::string& text) {
    folder.write("manifest.json", text);
    return read_manifest(posix_env(), folder.path()).error();
  };
  const Error foreign = read("{\"name\": \"my app\", \"icons\": []}");
  EXPECT_EQ(foreign.kind, ErrorKind::kUsage) << foreign.message;
  EXPECT_NE(foreign.message.find("give another directory"), std::string::npos) << foreign.message;
  EXPECT_EQ(read("{\"initial_weights_sha256\":\"12").kind, ErrorKind::kBadData);
  RunManifest whole = sample();
  whole.set(kInitialWeightsKey, "12");
  EXPECT_EQ(read(whole.json() + std::string("\0junk", 5)).kind, ErrorKind::kBadData);
}

TEST(RunManifest, IdentityLeavesOutTheNumberOfVirtualWorkersAndWhereItBegan) {
  RunManifest other = sample();
  for (const char* key : {kVirtualWorkersKey, kInitialWeightsKey, kStartEpochKey, kStartBestKey})
    other.set(key, 4);
  EXPECT_EQ(other.identity(), sample().identity());
  other.set("lr", "0.2");
  EXPECT_NE(other.identity(), sample().identity());
}

// The same run goes on from a checkpoint in another directory.
TEST(RunManifest, WhereADirectorysRecordsBeginMakesNoOtherRun) {
  const test::TempFolder folder;
  RunManifest there = sample();
  there.set(kInitialWeightsKey, "12");
  const RunManifest here = there;
  EXPECT_EQ(records_from(posix_env(), folder.path()), Txn(0));
  ASSERT_TRUE(write_manifest(posix_env(), folder.path(), there).ok());
  EXPECT_EQ(records_from(posix_env(), folder.path()), Txn(0));
  there.set(kRecordsFromKey, 8);
  EXPECT_TRUE(here.same_as(there, "run").ok());
  EXPECT_TRUE(there.same_as(here, "run").ok());
  EXPECT_EQ(there.identity(), here.identity());
  ASSERT_TRUE(write_manifest(posix_env(), folder.path(), there).ok());
  EXPECT_EQ(records_from(posix_env(), folder.path()), Txn(8));
}

TEST(RunManifest, NamesTheFirstDifferenceWithBothValues) {
  RunManifest other = sample();
  other.set("lr", "0.2");
  const Status status = other.same_as(sample(), "/runs/1");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
  for (const char* part : {"/runs/1", "lr", "0.1", "0.2", "--resume never"})
    EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
  EXPECT_TRUE(other.same_as(sample(), "/runs/1", "lr").ok());
}

TEST(RunManifest, SaysWhatMakesEachDifferenceAsItWas) {
  for (const auto& [key, advice] :
       {std::pair{"threads", "OMP_NUM_THREADS"},
        {"torch", "libtorch then"},
        {"cpu_capability", "a CPU with then"},
        {"virtual_workers", "--virtual-workers then"},
        {"dataset_size", "the data and the transforms that it had"},
        {"test_set_fingerprint", "the data and the transforms that it had"},
        {"initial_weights_sha256", "make the model as it was"},
        {"momentum", "the same options"}}) {
    RunManifest before = sample(), now = sample();
    before.set(key, "then");
    now.set(key, "now");
    const std::string message = now.same_as(before, "/runs/1").error().message;
    EXPECT_NE(message.find(advice), std::string::npos) << message;
  }
}

TEST(RunManifest, NamesTheProgramBeforeItsSettings) {
  RunManifest before = sample(), now = sample();
  before.set("best_of", "2");
  before.set("program", "spiral");
  now.set("program", "ring");
  const std::string message = now.same_as(before, "/runs/1").error().message;
  EXPECT_NE(message.find("program was spiral, now it is ring"), std::string::npos) << message;
}

TEST(RunManifest, NamesASettingBeforeWhatFollowsFromIt) {
  RunManifest before = sample(), now = sample();
  for (const auto& [manifest, seed] : {std::pair(&before, "0"), std::pair(&now, "1")}) {
    manifest->set("seed", seed);
    manifest->set("dataset_fingerprint", "f" + std::string(seed));
    manifest->set("initial_weights_sha256", "a" + std::string(seed));
  }
  const Status status = now.same_as(before, "/runs/1");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("seed was 0, now it is 1"), std::string::npos)
      << status.error().message;
  EXPECT_NE(now.same_as(before, "/runs/1", "seed").error().message.find("dataset_fingerprint was"),
            std::string::npos);
}

TEST(RunManifest, BadBytesAreBadData) {
  for (const char* text : {"", "{", "[]", "{\"lr\":1}", "null"}) {
    const auto parsed = RunManifest::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kBadData) << text;
  }
}

}  // namespace
}  // namespace lockstep::rundir
