// `lockstep report` of what shares add up by name (Share::add()), of steps done again, and of
// epochs of unequal length.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "inspect/commands.h"
#include "support/temp_folder.h"
#include "unit/inspect/support.h"

namespace lockstep::inspect {
namespace {

nlohmann::json json_of(const std::string& path) {
  const auto result = report_command(posix_env(), std::vector<std::string>{path, "--json"});
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return result.ok() ? nlohmann::json::parse(result->text, nullptr, false)["runs"]
                     : nlohmann::json();
}

// Of a step its updates together; means by what was counted; what is no number leaves a gap.
TEST(ReportSums, AreDrawnByName) {
  const test::TempFolder folder;
  const std::string path = folder / "run";
  folder.write("run/manifest.json",
               R"({"updates_per_step":"2","virtual_workers":"2","initial_weights_sha256":"00"})");
  folder.write("run/metrics.jsonl",
               R"({"txn":0,"step":0,"epoch":0,"update":0,"loss_mean":3,"kl":1,"sums":{"kl":[2,2]}}
{"txn":1,"step":0,"epoch":0,"update":1,"loss_mean":3,"sums":{"kl":[10,4],"<b>":[1,2]}}
{"txn":2,"step":1,"epoch":0,"update":0,"loss_mean":2,"sums":{"kl":[null,4]}}
{"txn":3,"step":1,"epoch":0,"update":1,"loss_mean":2,"sums":{"kl":[3,4],"<b>":[3,2],"none":[0,0]}}
{"txn":4,"step":2,"epoch":0,"update":0,"loss_mean":1,"sums":[1,"x"]}
{"txn":5,"step":2,"epoch":0,"update":1,"loss_mean":1,"sums":{"kl":[8,4],"bad":3,"worse":["x"]}}
)");
  const auto run = json_of(path)[0];
  EXPECT_EQ(run["sums"].size(), 2U) << run["sums"];
  const double third = 1.0 / 3;
  EXPECT_EQ(run["sums"]["kl"], (nlohmann::json{{third, nullptr, 2}, {1, nullptr, 2}}));
  EXPECT_EQ(run["sums"]["<b>"], (nlohmann::json{{third, nullptr, 0.5}, {2 * third, nullptr, 1.5}}));
  // As a file of runs it is the same.
  folder.write("runs.json", nlohmann::json{{"runs", {run}}}.dump());
  EXPECT_EQ(json_of(folder / "runs.json")[0]["sums"], run["sums"]);
  folder.write("bad.json", R"({"runs":[{"name":"a","sums":{"kl":[[1,2]]}}]})");
  const auto bad = report_command(posix_env(), std::vector<std::string>{folder / "bad.json"});
  ASSERT_FALSE(bad.ok());
  EXPECT_TRUE(has(bad.error().message, "\"sums\" has a point"));
  const std::string page = folder / "report.html";
  ASSERT_TRUE(report_command(posix_env(), std::vector<std::string>{path, "--out", page}).ok());
  const std::string html = *posix_env().read(page, 1 << 20);
  EXPECT_TRUE(has(html, "kl against epochs")) << html;
  EXPECT_TRUE(has(html, "&lt;b&gt; against epochs"));
  EXPECT_FALSE(has(html, "<b>"));
}

TEST(ReportRedone, AStepThatCameOutOtherwiseIsSaid) {
  const test::TempFolder folder;
  folder.write("run/manifest.json", R"({"virtual_workers":"2","initial_weights_sha256":"00"})");
  std::string log;
  const LogSink sink([&](std::string_view line) { log += line; });
  const std::string step = R"({"txn":4,"step":4,"epoch":0,"loss_mean":3)";
  folder.write("run/metrics.jsonl", step + "}\n");
  json_of(folder / "run");
  EXPECT_EQ(log, "");
  folder.write("run/metrics.jsonl", step + ",\"before\":" + step + "}}\n");
  json_of(folder / "run");
  EXPECT_TRUE(has(log, "step 4 came out otherwise as it was done again")) << log;
}

// 3 steps an epoch, then 2, then the first of another 2.
TEST(ReportSteps, EachEpochHasItsOwnNumberOfSteps) {
  const test::TempFolder folder;
  folder.write("run/manifest.json",
               R"({"batch_size":"5","virtual_workers":"3","initial_weights_sha256":"00"})");
  std::string lines;
  for (int txn = 0; txn < 6; ++txn)
    lines += R"({"txn":)" + std::to_string(txn) + R"(,"step":0,"epoch":)" +
             std::to_string(txn < 3 ? 0 : (txn - 1) / 2) + R"(,"loss_mean":1})" + "\n";
  folder.write("run/metrics.jsonl", lines);
  const auto run = json_of(folder / "run")[0];
  EXPECT_EQ(run["epochs_run"], 2);
  EXPECT_EQ(run["steps_per_epoch"], 2);
  std::vector<double> epochs;
  for (const auto& point : run["train"]) epochs.push_back(point[0]);
  EXPECT_EQ(epochs, (std::vector<double>{1.0 / 3, 2.0 / 3, 1, 1.5, 2, 2.5}));
}

}  // namespace
}  // namespace lockstep::inspect
