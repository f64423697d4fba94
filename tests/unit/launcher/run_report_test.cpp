#include "launcher/reports/run_report.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/unique_fd.h"
#include "support/temp_folder.h"

namespace lockstep::launcher {
namespace {

class RunReport : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path(folder_ / name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void write_run() const {
    write("manifest.json",
          R"({"initial_weights_sha256":"00","program":"convnet","virtual_workers":"3"})");
    std::string metrics;
    for (int txn = 0; txn < 5; ++txn)
      metrics += R"({"txn":)" + std::to_string(txn) + R"(,"step":)" + std::to_string(txn) +
                 R"(,"epoch":0,"loss":2,"loss_mean":1.5})" + "\n";
    metrics += R"({"txn":5,"step":5,"epoch":0,"test_loss":0.25,"test_accuracy":0.875})"
               "\n{\"txn\":6,\"st";  // its writer was killed
    write("metrics.jsonl", metrics);
    std::filesystem::create_directories(folder_ / "checkpoints/step-00000005");
    std::filesystem::create_directories(folder_ / "checkpoints/step-00000002");
    write("incidents/0001.json", R"({"victims":[{"uid":2,"rank":1,"cause":"SIGKILL"}]})");
  }
  nlohmann::json report() const {
    const auto text = run_report(posix_env(), folder_.path());
    return text.ok() ? nlohmann::json::parse(*text) : nlohmann::json(text.error().message);
  }
  test::TempFolder folder_;
};

TEST_F(RunReport, AValidationSetIsNamed) {
  write_run();
  write("metrics.jsonl", R"({"txn":5,"epoch":0,"valid_loss":0.25,"valid_accuracy":0.875})"
                         "\n");
  EXPECT_EQ(report()["valid_accuracy"], 0.875);
  EXPECT_NE(readable_report(report().dump()).find("validation loss 0.25, accuracy 0.875"),
            std::string::npos);
}

TEST_F(RunReport, AStepCountsWithItsLastUpdate) {
  write_run();
  write("manifest.json", R"({"initial_weights_sha256":"00","updates_per_step":"2"})");
  std::string lines;
  for (int txn = 0; txn < 6; ++txn) {
    lines += R"({"txn":)" + std::to_string(txn) + R"(,"step":)" + std::to_string(txn / 2) +
             R"(,"epoch":0,"update":)" + std::to_string(txn % 2) + R"(,"loss_mean":1.5})" + "\n";
    write("metrics.jsonl", lines);
    EXPECT_EQ(report()["steps"], (txn + 1) / 2) << txn;
    EXPECT_EQ(report()["committed"], txn + 1);
  }
}

TEST_F(RunReport, OfALiveRunIsAddedToWhatItsLauncherSays) {
  write_run();
  const std::string told = R"({"state":"running","committed":9,"members":[{"rank":0}]})";
  const auto json = nlohmann::json::parse(with_metrics(posix_env(), folder_.path(), told));
  EXPECT_EQ(json["state"], "running");
  EXPECT_EQ(json["committed"], 9) << "newer than the file";
  EXPECT_EQ(json["steps"], 5);
  EXPECT_EQ(json["loss_mean"], 1.5);
  EXPECT_EQ(json["members"].size(), 1U);
  const auto none = nlohmann::json::parse(with_metrics(posix_env(), folder_ / "none", told));
  EXPECT_FALSE(none.contains("steps"));
}

TEST_F(RunReport, ARunWithAResultIsFinishedWhateverHasBecomeOfItsRecords) {
  write_run();
  write("result.json", R"({"weights_sha256":"ab","steps":5,"seconds":1})");
  EXPECT_EQ(report()["state"], "finished");
  write("metrics.jsonl", "");
  EXPECT_EQ(report()["state"], "finished");
  EXPECT_EQ(report()["weights_sha256"], "ab");
  write("result.json", R"({"weights_sha256":"ab","steps":3})");
  write_run();  // which has gone on since
  EXPECT_EQ(report()["state"], "stopped");
}

TEST_F(RunReport, OfAStoppedRunIsWhatItsRecordsHave) {
  write_run();
  const nlohmann::json json = report();
  EXPECT_EQ(json["state"], "stopped");
  EXPECT_EQ(json["committed"], 6);
  EXPECT_EQ(json["steps"], 5);
  EXPECT_EQ(json["test_accuracy"], 0.875);
  EXPECT_EQ(json["last_incident"], "rank 1 SIGKILL");
  EXPECT_EQ(json["checkpoint"], folder_ / "checkpoints/step-00000005");
  const std::string text = readable_report(json.dump());
  for (const char* part : {"stopped: 5 steps", "last loss 1.5", "accuracy 0.875", "SIGKILL",
                           "step-00000005", "the same command goes on"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST_F(RunReport, AResultMakesItFinishedUnlessItIsOfAnEarlierEnd) {
  write_run();
  write("result.json", R"({"weights_sha256":"ab","steps":4})");
  EXPECT_EQ(report()["state"], "stopped");
  write("result.json", R"({"weights_sha256":"ab","steps":5,"seconds":2})");
  const nlohmann::json json = report();
  EXPECT_EQ(json["state"], "finished");
  EXPECT_NE(readable_report(json.dump()).find("weights sha256 ab"), std::string::npos);
}

TEST_F(RunReport, IsMadeOfWhateverThereIs) {
  EXPECT_NE(report().get<std::string>().find("holds no run"), std::string::npos);
  write("manifest.json", "[]");
  write("metrics.jsonl", "{\"txn\":-1}\nnothing\n[]\n{\"txn\":\"x\"}\n");
  write("result.json", "7");
  write("incidents/0001.json", R"({"victims":[7,{},{"rank":1,"cause":2}]})");
  EXPECT_EQ(report()["steps"], 0);
  EXPECT_NE(readable_report(report().dump()).find("begins anew"), std::string::npos);
}

TEST_F(RunReport, ADirectoryInUseIsHeld) {
  write_run();
  const UniqueFd lock(::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  EXPECT_EQ(report()["state"], "held");
}

}  // namespace
}  // namespace lockstep::launcher
