#include "checkpoint/store.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/user_file.h"
#include "support/checkpoint_fault_env.h"
#include "support/temp_folder.h"
#include "unit/checkpoint/samples.h"

namespace lockstep::checkpoint {
namespace {

// Known before the run has made its directory, and not at its end.
TEST(UserFile, IsNoneOfWhatTheRunIsGoingToWrite) {
  const test::TempFolder folder;
  const std::string run = folder / "a/run";
  std::filesystem::create_directory_symlink(folder.path(), folder / "link");
  for (const char* own :
       {"a/run", "a/run/", "a/run/manifest.json", "a/run/ledger.jsonl", "a/run/checkpoints",
        "a/run/checkpoints/x/w.pt", "link/a/run/result.json", "a/./b/../run/stop.json"}) {
    const Status status = check_user_file(posix_env(), folder / own, run);
    ASSERT_FALSE(status.ok()) << own;
    EXPECT_EQ(status.error().kind, ErrorKind::kUsage) << own;
    EXPECT_NE(status.error().message.find("the run's"), std::string::npos)
        << status.error().message;
  }
  const std::string relative = std::filesystem::absolute("none-run").string();
  for (const char* own : {"none-run/ledger.jsonl", "none-run/checkpoints/w.pt", "./none-run"})
    EXPECT_FALSE(check_user_file(posix_env(), own, relative).ok()) << own;
  for (const char* mine :
       {"a/run/w.pt", "a/w.pt", "a/result.json", "a/run/x/manifest.json", "a/run2"})
    EXPECT_TRUE(check_user_file(posix_env(), folder / mine, run).ok()) << mine;
  EXPECT_TRUE(check_user_file(posix_env(), folder / "a/run/result.json").ok());  // no run there
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
}

using testing::MemoryEnv;

class Store : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(env_.make_dirs("run").ok()); }

  void put(std::uint64_t txn, const std::string& identity = "run-a") {
    const auto path = save(env_, "run", Sample(txn), txn, identity);
    ASSERT_TRUE(path.ok()) << path.error().message;
  }

  // The step that a search gives, loaded and compared; -1: none.
  std::int64_t newest(Search* out = nullptr) {
    Sample loaded(999999);
    const auto targets = loaded.targets();
    auto search = load_newest(env_, "run", {"run-a", 3}, targets);
    EXPECT_TRUE(search.ok()) << search.error().message;
    if (!search.ok() || !search->newest) {
      if (out != nullptr && search.ok()) *out = *search;
      return -1;
    }
    const std::uint64_t txn = search->newest->manifest.cursor.txn;
    EXPECT_EQ(loaded, Sample(txn));
    EXPECT_EQ(search->newest->state, Sample(txn).state());
    if (out != nullptr) *out = *search;
    return static_cast<std::int64_t>(txn);
  }

  std::string refusal(const Expectation& expected, std::span<const PartTarget> parts = {}) {
    const auto search = load_newest(env_, "run", expected, parts);
    EXPECT_FALSE(search.ok());
    EXPECT_EQ(search.ok() ? ErrorKind::kInternal : search.error().kind, ErrorKind::kBadData);
    return search.ok() ? "" : search.error().message;
  }

  MemoryEnv env_;
  const std::string file_ = "run/checkpoints/step-00000020/model.safetensors";
};

TEST_F(Store, NothingThereIsNoError) {
  EXPECT_EQ(newest(), -1);
  EXPECT_TRUE(remove_unpublished(env_, "run").ok());
}

TEST_F(Store, TheNewestIsFoundAndItsContentIsWhatWasSaved) {
  put(10);
  put(20);
  EXPECT_EQ(newest(), 20);
  const auto found = find_newest(env_, "run");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->newest->path, "run/checkpoints/step-00000020");
  EXPECT_EQ(found->newest->manifest.cursor, (RunCursor{20, 2, 0}));
  EXPECT_EQ(found->newest->manifest.weights_sha256.size(), 64U);
  EXPECT_TRUE(found->skipped.empty());
}

TEST_F(Store, AFlippedBitAnywhereIsNamedAndTheOlderOneTaken) {
  put(10);
  put(20);
  for (const char* name :
       {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"}) {
    const std::string path = std::string("run/checkpoints/step-00000020/") + name;
    std::size_t size = 0;
    env_.damage(path, [&](std::string& data) { size = data.size(); });
    for (std::size_t i = 0; i < size; i += 1 + size / 97) {
      const auto flip = [&](std::string& data) { data[i] = static_cast<char>(data[i] ^ 16); };
      env_.damage(path, flip);
      Search search;
      EXPECT_EQ(newest(&search), 10) << path << " " << i;
      ASSERT_EQ(search.skipped.size(), 1U);
      EXPECT_EQ(search.skipped[0].path, "run/checkpoints/step-00000020");
      EXPECT_FALSE(search.skipped[0].reason.empty());
      env_.damage(path, flip);
    }
    EXPECT_EQ(newest(), 20);
  }
}

TEST_F(Store, AFileCutAnywhereOrTooLongIsSkipped) {
  put(10);
  put(20);
  std::string whole;
  env_.damage(file_, [&](std::string& data) { whole = data; });
  for (std::size_t length = 0; length < whole.size(); length += 1 + whole.size() / 53) {
    env_.damage(file_, [&](std::string& data) { data = whole.substr(0, length); });
    EXPECT_EQ(newest(), 10) << length;
  }
  env_.damage(file_, [&](std::string& data) { data = whole + '\0'; });
  EXPECT_EQ(newest(), 10);
  env_.damage(file_, [&](std::string& data) { data = whole; });
  EXPECT_EQ(newest(), 20);
}

TEST_F(Store, AMissingFileIsSkipped) {
  put(10);
  put(20);
  ASSERT_TRUE(env_.remove_all(file_).ok());
  Search search;
  EXPECT_EQ(newest(&search), 10);
  EXPECT_NE(search.skipped.at(0).reason.find("model.safetensors"), std::string::npos);
  ASSERT_TRUE(env_.remove_all("run/checkpoints/step-00000020/manifest.json").ok());
  EXPECT_EQ(newest(&search), 10);
  EXPECT_NE(search.skipped.at(0).reason.find("manifest.json"), std::string::npos);
}

TEST_F(Store, AnotherFormatVersionIsRefused) {
  put(10);
  put(20);
  env_.damage("run/checkpoints/step-00000020/manifest.json", [](std::string& text) {
    text.resize(text.rfind(",\n \"xxh3\""));
    const std::string from = "\"version\": 1";
    text = seal(text.replace(text.find(from), from.size(), "\"version\": 3"));
  });
  EXPECT_NE(refusal({}).find("format version is 3"), std::string::npos);
}

TEST_F(Store, AnotherNumberOfVirtualWorkersIsRefused) {
  put(10);
  const std::string message = refusal({"run-a", 4});
  EXPECT_NE(message.find("3 virtual workers, this run has 4"), std::string::npos) << message;
}

TEST_F(Store, AnotherModelIsRefusedByTheNameOfTheFirstTensorThatDiffers) {
  put(10);
  Sample wider(1, 2);
  const auto targets = wider.targets();
  for (const char* identity : {"run-a", "run-b"}) {
    const std::string message = refusal({identity, 3}, targets);
    EXPECT_NE(message.find("'fc.weight' is F32 [10, 3] in the checkpoint, F32 [20, 3] here"),
              std::string::npos)
        << message;
  }
}

TEST_F(Store, MissingAndExtraTensorsAndPartsAreNamed) {
  put(10);
  Sample sample(1);
  auto targets = sample.targets();
  targets[0].tensors[1].info.name = "fc.offset";
  const std::string names = refusal({}, targets);
  EXPECT_NE(names.find("'fc.offset' is missing in the checkpoint"), std::string::npos) << names;
  EXPECT_NE(names.find("'fc.bias' of the checkpoint is not known here"), std::string::npos);
  targets = sample.targets();
  targets[0].tensors[0].info.dtype = DType::kI32;
  EXPECT_NE(refusal({}, targets).find("is F32 [10, 3] in the checkpoint, I32 [10, 3] here"),
            std::string::npos);
  targets = sample.targets();
  targets.pop_back();
  EXPECT_NE(refusal({}, targets).find("'optimizer.safetensors' that nothing"), std::string::npos);
  targets.push_back({"scaler", {}});
  EXPECT_NE(refusal({}, targets).find("no part 'scaler'"), std::string::npos);
}

TEST_F(Store, ADamagedHeaderIsDamageAndNotAnotherModel) {
  put(10);
  put(20);
  env_.damage(file_, [](std::string& data) { data.replace(data.find("fc.bias"), 7, "fc.bios"); });
  EXPECT_EQ(newest(), 10);
}

TEST_F(Store, AnotherRunIsRefused) {
  put(10);
  const std::string message = refusal({"run-b", 3});
  EXPECT_NE(message.find("another run"), std::string::npos) << message;
  EXPECT_TRUE(find_newest(env_, "run", {"run-b", 3, "run-a"}).ok());
}

TEST_F(Store, RetentionKeepsTheNewestAndTheBestAndNothingElse) {
  for (std::uint64_t txn = 10; txn <= 50; txn += 10) put(txn);
  ASSERT_TRUE(set_pointer(env_, "run", "best", 20).ok());
  ASSERT_TRUE(retain(env_, "run", 50, 2).ok());
  EXPECT_EQ(*list_steps(env_, "run"), (std::vector<std::uint64_t>{50, 40, 20}));
  ASSERT_TRUE(retain(env_, "run", 50, 0).ok());
  EXPECT_EQ(*list_steps(env_, "run"), (std::vector<std::uint64_t>{50, 20}));
  EXPECT_EQ(*env_.list("run/checkpoints"),
            (std::vector<std::string>{"best", "step-00000020", "step-00000050"}));
}

TEST_F(Store, RetentionDoesNotCountTheDamagedNorTouchTheNewer) {
  for (std::uint64_t txn = 10; txn <= 50; txn += 10) put(txn);
  env_.damage("run/checkpoints/step-00000030/manifest.json", [](std::string& t) { t = "{}"; });
  ASSERT_TRUE(retain(env_, "run", 40, 2).ok());
  EXPECT_EQ(*list_steps(env_, "run"), (std::vector<std::uint64_t>{50, 40, 30, 20}));
}

TEST_F(Store, TheSameStepAgainReplacesOnlyWhatIsNotGood) {
  put(10);
  put(20);
  put(20);
  EXPECT_EQ(newest(), 20);
  env_.damage(file_, [](std::string& data) { data.back() = static_cast<char>(~data.back()); });
  put(20);
  EXPECT_EQ(newest(), 20);
  EXPECT_EQ(*env_.list("run/checkpoints"),
            (std::vector<std::string>{"step-00000010", "step-00000020"}));
}

TEST_F(Store, LeftoversGoAndPublishedOnesStay) {
  put(10);
  ASSERT_TRUE(env_.make_dirs("run/checkpoints/.tmp-lockstep-step-00000030").ok());
  ASSERT_TRUE(env_.make_dirs("run/checkpoints/.tmp-lockstep-old-step-00000005").ok());
  ASSERT_TRUE(remove_unpublished(env_, "run").ok());
  EXPECT_EQ(*env_.list("run/checkpoints"), (std::vector<std::string>{"step-00000010"}));
}

TEST_F(Store, ARenamedCheckpointIsNotAnotherStep) {
  put(10);
  put(20);
  ASSERT_TRUE(env_.rename("run/checkpoints/step-00000010", "run/checkpoints/step-00000030").ok());
  Search search;
  Sample loaded(1);
  const auto targets = loaded.targets();
  const auto result = load_newest(env_, "run", {}, targets);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->newest->manifest.cursor.txn, 20U);
  EXPECT_EQ(result->skipped.size(), 1U);
}

TEST_F(Store, OneByPath) {
  put(10);
  Sample loaded(1);
  const auto targets = loaded.targets();
  const auto found = load_checkpoint_at(env_, "run/checkpoints/step-00000010", {}, targets);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(loaded, Sample(10));
}

TEST_F(Store, APathThatIsNoCheckpointIsSaidToBeNone) {
  put(10);
  for (const auto& [path, says] :
       {std::pair("run/none", "there is no such folder"),
        {"run/checkpoints", "it has no manifest.json"},
        {"run/checkpoints/step-00000010/state.json", "it has no manifest.json"},
        {"run", "it is a run's directory"}}) {
    const auto found = load_checkpoint_at(env_, path, {}, {});
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().kind, ErrorKind::kBadData);
    EXPECT_NE(found.error().message.find(says), std::string::npos) << found.error().message;
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
