// `lockstep report`: where figures come from, and what is made of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/pt/writer.h"
#include "inspect/commands.h"
#include "support/python.h"
#include "support/temp_folder.h"
#include "unit/inspect/support.h"

namespace lockstep::inspect {
namespace {

using pickle::Value;

std::string printed(const Texts& words) {
  const auto result = report_command(posix_env(), words);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return result.ok() ? result->text : "";
}

nlohmann::json runs_of(Texts words) {
  words.emplace_back("--json");
  return nlohmann::json::parse(printed(words), nullptr, false)["runs"];
}

Error report_error(const Texts& words) {
  const auto result = report_command(posix_env(), words);
  EXPECT_FALSE(result.ok());
  return result.ok() ? Error{} : result.error();
}

class Report : public testing::Test {
 protected:
  static Value list(const std::vector<double>& numbers) {
    pickle::Items items;
    for (const double number : numbers) items.emplace_back(number);
    return Value::list(std::move(items));
  }
  std::string save(const std::string& name, const std::vector<double>& train,
                   const std::vector<double>& times) {
    const std::string path = folder_ / name;
    const Value root = Value::dict({{"EPOCHS_RUN", static_cast<int>(times.size())},
                                    {"RUN_TIME", 130.5},
                                    {"TRAIN_HISTORY", list(train)},
                                    {"VALID_HISTORY", list(train)},
                                    {"EPOCH_TIMES", list(times)},
                                    {"LOWEST_LOSS", *std::ranges::min_element(train)}});
    EXPECT_TRUE(checkpoint::pt::write(posix_env(), path, root).ok());
    return path;
  }
  // 2 virtual workers of 5 samples, 3 steps an epoch, evaluated at the end of the first.
  std::string run_directory() {
    folder_.write("run/manifest.json",
                  R"({"batch_size":"5","virtual_workers":"2","initial_weights_sha256":"00",)"
                  R"("optimizer_0":"SGD lr=0.01 momentum=0"})");
    std::string lines;
    for (int step = 0; step < 3; ++step)
      lines +=
          R"({"txn":0,"step":0,"epoch":0,"loss":9,"loss_mean":)" + std::to_string(3 - step) + "}\n";
    lines += R"({"txn":3,"epoch":0,"test_loss":1.5,"test_accuracy":0.25,"test_samples":4})"
             "\n";
    lines += R"({"txn":4,"step":3,"epoch":1,"loss":9,"loss_mean":null})"
             "\n";
    lines += R"({"txn":5,"step":4,"epoch":1,"loss":9,"loss_mean":0.5})"
             "\n"
             R"({"txn":6,"st)";
    folder_.write("run/metrics.jsonl", lines);
    return folder_ / "run";
  }
  test::TempFolder folder_;
};

// The document's own table; steps per epoch (375 there) and epochs (54 there) of two columns are
// what its other figures say: 20,800 samples by 64, and 120 minutes by 2.37.
TEST_F(Report, TheTutorialsTableWithItsTwoSlipsCorrected) {
  const std::string expected = R"(| | 1 node | 2 nodes | 4 nodes | 8 nodes |
|---|---:|---:|---:|---:|
| Workers | 1 | 2 | 4 | 8 |
| Learning rate | 0.0001 | 0.000141 | 0.0002 | 0.000283 |
| Global batch size | 32 | 64 | 128 | 256 |
| Steps per epoch | 650 | 325 | 163 | 82 |
| Mean epoch time | 8.76 min | 5.40 min | 3.35 min | 2.37 min |
| Epochs in the budget | 14 | 23 | 36 | 51 |
| Epochs run | – | – | – | – |
| Scaling efficiency | 1.00 | 0.81 | 0.65 | 0.46 |
| Best validation loss | 0.3795 | 0.3646 | 0.3558 | 0.3522 |
| Test loss | 0.4485 | 0.4351 | 0.4286 | 0.4287 |
| Top-1 test accuracy | 86.90 % | 87.30 % | 87.50 % | 87.50 % |
)";
  EXPECT_EQ(printed({TUTORIAL_001, "--markdown"}), expected);
}

TEST_F(Report, ARunDirectory) {
  const auto run = runs_of({run_directory()})[0];
  EXPECT_EQ(run["name"], "run");
  EXPECT_EQ(run["learning_rate"], 0.01);
  EXPECT_EQ(run["global_batch"], 10);
  EXPECT_EQ(run["steps_per_epoch"], 3);
  EXPECT_EQ(run["epochs_run"], 1);
  EXPECT_EQ(run["test_loss"], 1.5);
  EXPECT_EQ(run["top1"], 0.25);
  for (const char* missing :
       {"workers", "epoch_time_s", "budget_s", "epochs_in_budget", "scaling_efficiency",
        "best_validation_loss", "best_validation_accuracy"})
    EXPECT_TRUE(run[missing].is_null()) << missing;
  // Points: the loss that was not finite is left out.
  EXPECT_EQ(run["train"].size(), 4U);
  EXPECT_EQ(run["train"][3][2], 0.5);
  EXPECT_TRUE(run["train"][0][1].is_null());
  EXPECT_EQ(run["test"][0], (nlohmann::json{1, nullptr, 1.5}));
  folder_.write("run/manifest.json", R"({"accumulation_steps":"3","batch_size":"5",)"
                                     R"("virtual_workers":"2","initial_weights_sha256":"00"})");
  EXPECT_EQ(runs_of({folder_ / "run"})[0]["global_batch"], 30);
  // A slash at the end is the same run.
  EXPECT_EQ(runs_of({folder_ / "run/"})[0]["name"], "run");
}

TEST_F(Report, TheBestValidationAccuracyWhereOneIsCounted) {
  const std::string path = run_directory();
  EXPECT_EQ(printed({path}).find("Best validation accuracy"), std::string::npos);
  folder_.write("run/metrics.jsonl", R"({"txn":0,"epoch":0,"loss_mean":3}
{"txn":1,"epoch":0,"valid_loss":1.5,"valid_accuracy":0.5,"valid_samples":4}
{"txn":2,"epoch":1,"loss_mean":2}
{"txn":3,"epoch":1,"valid_loss":1.75,"valid_accuracy":0.75,"valid_samples":4}
{"txn":4,"epoch":2,"loss_mean":1}
{"txn":5,"epoch":2,"valid_loss":1.25,"valid_accuracy":0.25,"valid_samples":4}
)");
  EXPECT_EQ(runs_of({path})[0]["best_validation_accuracy"], 0.75);
  EXPECT_NE(printed({path, "--markdown"}).find("| Best validation accuracy | 75.00 % |"),
            std::string::npos);
}

TEST_F(Report, EvaluationsInAnEpochAreWhereTheyWere) {
  const std::string path = run_directory();
  folder_.write("run/metrics.jsonl", R"({"txn":0,"epoch":0,"loss_mean":3}
{"txn":1,"epoch":0,"loss_mean":2}
{"txn":2,"epoch":0,"epoch_step":2,"valid_loss":1.75,"valid_samples":4}
{"txn":3,"epoch":0,"loss_mean":1}
{"txn":4,"epoch":0,"loss_mean":1}
{"txn":5,"epoch":0,"valid_loss":1.5,"valid_samples":4}
{"txn":6,"epoch":1,"loss_mean":1}
{"txn":7,"epoch":1,"loss_mean":1}
{"txn":8,"epoch":1,"epoch_step":2,"valid_loss":1.25,"valid_samples":4}
)");
  const auto run = runs_of({path})[0];
  EXPECT_EQ(run["epochs_run"], 1);
  EXPECT_EQ(run["best_validation_loss"], 1.25);
  EXPECT_EQ(run["validation"],
            (nlohmann::json{{0.5, nullptr, 1.75}, {1, nullptr, 1.5}, {1.5, nullptr, 1.25}}));
}

// Of 240 steps with 1 and 3 in turn; second updates, as a GAN's, are no points of it, nor is a step
// that lacks its own.
TEST_F(Report, ALongCurveHasMeansOfNeighbours) {
  const std::string path = run_directory();
  folder_.write("run/manifest.json", R"({"initial_weights_sha256":"00","updates_per_step":"2"})");
  std::string lines;
  for (int step = 0; step < 240; ++step)
    lines += R"({"txn":)" + std::to_string(step) + R"(,"epoch":0,"loss_mean":)" +
             (step % 2 == 0 ? "1" : "3") + "}\n" +
             R"({"txn":0,"epoch":0,"update":1,"loss_mean":9})" + "\n";
  lines += R"({"txn":0,"epoch":0,"update":0,"loss_mean":9})"
           "\n";
  folder_.write("run/metrics.jsonl", lines);
  const auto train = runs_of({path})[0]["train"];
  ASSERT_EQ(train.size(), 120U);
  EXPECT_EQ(train[0], (nlohmann::json{2 / 240.0, nullptr, 2}));
  EXPECT_EQ(train[119], (nlohmann::json{1, nullptr, 2}));
}

// Of 2 minutes an epoch, after 60 of another run.
TEST_F(Report, ARunThatBeganBehindAnother) {
  const std::string path = run_directory();
  std::string lines, times;
  for (int epoch = 5; epoch < 10; ++epoch) {
    const std::string txn = std::to_string(epoch * 10);
    lines += R"({"txn":)" + txn + R"(,"epoch":)" + std::to_string(epoch) +
             R"(,"loss_mean":1})"
             "\n";
    times += R"({"txn":)" + txn + R"(,"run_s":)" + std::to_string(3720 + (epoch - 5) * 120) +
             R"(,"workers":2})"
             "\n";
  }
  folder_.write("run/metrics.jsonl", lines);
  folder_.write("run/times.jsonl", times);
  EXPECT_EQ(runs_of({path})[0]["epoch_time_s"], 120);
}

TEST_F(Report, ARunDirectoryWithTimes) {
  const std::string path = run_directory();
  folder_.write("run/metrics.jsonl", R"({"txn":0,"epoch":0,"loss_mean":3}
{"txn":1,"epoch":0,"loss_mean":2}
{"txn":2,"epoch":0,"test_loss":1.5,"test_samples":4}
{"txn":3,"epoch":1,"loss_mean":1}
{"txn":4,"epoch":1,"loss_mean":0.5}
{"txn":5,"epoch":1,"test_loss":1.25,"test_samples":4}
{"txn":6,"epoch":2,"loss_mean":0.25}
)");
  folder_.write("run/times.jsonl", R"({"txn":1,"run_s":12,"workers":2}
{"txn":2,"run_s":30,"workers":2}
{"txn":5,"run_s":60,"workers":2}
)");
  const auto run = runs_of({path, "--budget", "1h"})[0];
  EXPECT_EQ(run["workers"], 2);
  EXPECT_EQ(run["epoch_time_s"], 30);
  EXPECT_EQ(run["epochs_in_budget"], 120);
  EXPECT_EQ(run["test"][0], (nlohmann::json{1, 0.5, 1.5}));
  EXPECT_EQ(run["train"][0], (nlohmann::json{0.5, 0.1, 3}));  // half-way to the first line
  EXPECT_EQ(run["train"][3], (nlohmann::json{2, 50 / 60.0, 0.5}));
  EXPECT_TRUE(run["train"][4][1].is_null());  // after the last line
  folder_.write("run/times.jsonl", R"({"txn":1,"run_s":12,"workers":2}
{"txn":2,"run_s":30,"workers":1}
)");
  const auto shrunk = runs_of({path})[0];
  EXPECT_TRUE(shrunk["workers"].is_null());
  EXPECT_EQ(shrunk["epoch_time_s"], 30);  // of the first alone
  folder_.write("run/times.jsonl", R"({"txn":1,"run_s":12,"workers":2}
{"txn":2,"run_s":13,"workers":1}
{"txn":5,"run_s":60,"workers":2}
)");
  EXPECT_EQ(runs_of({path})[0]["workers"], 2) << "one was away for a moment";
}

// A run's validation set is not its test set; and NAME-run, NAME_metrics.pt and NAME are one run.
TEST_F(Report, ValidationAndTestAreToldApartAndFilesOfOneRunAreOne) {
  run_directory();
  folder_.write("two-run/manifest.json", R"({"initial_weights_sha256":"00"})");
  folder_.write("two-run/metrics.jsonl", R"({"txn":0,"epoch":0,"loss_mean":3}
{"txn":1,"epoch":0,"valid_loss":1.5,"valid_accuracy":0.5,"valid_samples":4}
{"txn":2,"epoch":1,"loss_mean":2}
{"txn":3,"epoch":1,"valid_loss":1.75,"valid_accuracy":0.5,"valid_samples":4}
)");
  const std::string aside =
      folder_.write("two.json", R"({"runs":[{"name":"two-run","test_loss":1.25,"top1":0.75}]})");
  const auto runs = runs_of({folder_ / "two-run", save("two_metrics.pt", {2, 1}, {60, 70}), aside});
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0]["name"], "two");
  EXPECT_EQ(runs[0]["best_validation_loss"], 1.5);
  EXPECT_EQ(runs[0]["validation"].size(), 2U);
  EXPECT_EQ(runs[0]["test_loss"], 1.25);
  EXPECT_EQ(runs[0]["top1"], 0.75);
  EXPECT_EQ(runs[0]["epoch_time_s"], 65);
}

TEST_F(Report, TheTutorialsSaves) {
  const std::string path = save("multi_node_metrics.pt", {2, 1}, {60, 70.5});
  const auto run = runs_of({path, "--budget", "2h"})[0];
  EXPECT_EQ(run["name"], "multi_node");
  EXPECT_EQ(run["epochs_run"], 2);
  EXPECT_EQ(run["epoch_time_s"], 65.25);
  EXPECT_EQ(run["epochs_in_budget"], 111);
  EXPECT_EQ(run["best_validation_loss"], 1);
  EXPECT_EQ(run["train"][1], (nlohmann::json{2, 2.175, 1}));
  EXPECT_TRUE(run["test_loss"].is_null());
}

// Evaluated where the time limit stopped it, and no epoch run.
TEST_F(Report, TheEpochThatTheTimeLimitBroke) {
  const auto run = runs_of({save("broken_metrics.pt", {2, 1, 0.5}, {60, 66})})[0];
  EXPECT_EQ(run["epochs_run"], 2);
  EXPECT_EQ(run["epoch_time_s"], 63);
  EXPECT_EQ(run["validation"][2], (nlohmann::json{3, 2.175, 0.5}));

  const std::string path = run_directory();
  folder_.write("run/metrics.jsonl", R"({"txn":0,"epoch":0,"loss_mean":3}
{"txn":1,"epoch":0,"loss_mean":2}
{"txn":2,"epoch":0,"test_loss":1.5,"test_samples":4}
{"txn":3,"epoch":1,"loss_mean":1}
{"txn":4,"epoch":1,"test_loss":1.25,"broken":true,"test_samples":4}
)");
  const auto directory = runs_of({path})[0];
  EXPECT_EQ(directory["epochs_run"], 1);
  EXPECT_EQ(directory["test_loss"], 1.25);
}

TEST_F(Report, FiguresFromAsideFillInWhatIsMissing) {
  const std::string one = save("one_metrics.pt", {2, 1}, {60, 60}),
                    two = save("two_metrics.pt", {2, 1}, {40, 40});
  const std::string aside = folder_.write("aside.json", R"({"runs":[
    {"name":"one","workers":1,"epoch_time_s":1},{"name":"two","workers":2,"top1":null}]})");
  const auto runs = runs_of({one, two, aside});
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0]["epoch_time_s"], 60);  // what is there is kept
  EXPECT_EQ(runs[1]["scaling_efficiency"], 0.75);
}

TEST_F(Report, JsonIsReadBack) {
  const std::string first =
      printed({save("one_metrics.pt", {2, 1}, {60, 60}), run_directory(), TUTORIAL_001, "--json"});
  const std::string again = printed({folder_.write("all.json", first), "--json"});
  const auto without_paths = [](const std::string& text) {
    auto runs = nlohmann::json::parse(text)["runs"];
    for (auto& run : runs) run.erase("path");
    return runs;
  };
  EXPECT_EQ(without_paths(again), without_paths(first));
}

TEST_F(Report, PythonsSave) {
  const std::string python = test::python_with("torch, numpy");
  if (python.empty()) GTEST_SKIP() << "no Python with torch and numpy; set LOCKSTEP_PYTHON";
  const std::string script = folder_.write("save.py", R"(import sys, numpy, torch
torch.save({"EPOCHS_RUN": 2, "RUN_TIME": 130.0, "TRAIN_HISTORY": [2.0, 1.5],
            "VALID_HISTORY": [1.0, 0.75], "EPOCH_TIMES": [70.0, 60.0],
            "LOWEST_LOSS": numpy.float64(0.75)}, sys.argv[1])
)");
  const std::string path = folder_ / "one_metrics.pt";
  ASSERT_EQ(test::output_of(python + " " + script + " " + path), "");
  EXPECT_EQ(runs_of({path})[0]["best_validation_loss"], 0.75);
}

TEST_F(Report, APageWithAllTextEscaped) {
  const std::string aside = folder_.write("aside.json", R"({"runs":[{"name":"<b>&\"'x","workers":1,
    "train":[[1,2,3.5],[2,4,1.25]],"validation":[[1,null,0.5]]}]})");
  const std::string out = folder_ / "report.html";
  printed({aside, "--out", out});
  const std::string page = test::read_text(out);
  EXPECT_FALSE(has(page, "<b>"));
  EXPECT_TRUE(has(page, "&lt;b&gt;&amp;&quot;&#39;x"));
  EXPECT_TRUE(has(page, "Train loss against minutes"));
  EXPECT_TRUE(has(page, "<div class=\"graphs\">\n<figure>"));
  EXPECT_TRUE(has(page, "polyline class=\"series s0\""));
  EXPECT_TRUE(has(page, "title=\"missing\""));
  for (const char* outside : {"http", "src=", "<script", "@import", "url("})
    EXPECT_FALSE(has(page, outside)) << outside;
}

TEST_F(Report, APageSaysWhatBudgetItMeans) {
  const std::string out = folder_ / "report.html";
  const auto says = [&](const std::string& words) {
    return has(test::read_text(out), "Epochs in the budget" + words + ": begun in it.");
  };
  const std::string one = save("one_metrics.pt", {2, 1}, {60, 60});
  printed({one, "--out", out});
  EXPECT_TRUE(says(""));
  printed({one, "--out", out, "--budget", "2h"});
  EXPECT_TRUE(says(" of 2 h"));
  printed({one, "--out", out, "--budget", "90s"});
  EXPECT_TRUE(says(" of 1.5 min"));
  printed({one, "--out", out, "--budget", "45s"});
  EXPECT_TRUE(says(" of 45 s"));
  const std::string two = folder_.write(
      "two.json", R"({"runs":[{"name":"a","budget_s":60},{"name":"b","budget_s":7200}]})");
  printed({two, "--out", out});
  EXPECT_TRUE(says(""));
}

TEST_F(Report, ARunWithoutTimesIsDrawnAgainstEpochsAndSaidToBe) {
  const std::string out = folder_ / "report.html";
  printed({run_directory(), "--out", out});
  const std::string page = test::read_text(out);
  EXPECT_TRUE(has(page, "Train loss against epochs"));
  EXPECT_TRUE(has(page, "Test loss against epochs"));
  EXPECT_FALSE(has(page, "against minutes"));
  EXPECT_TRUE(has(page, "against epochs alone: run."));
}

TEST_F(Report, WhatIsNoRunIsRefused) {
  const auto refused = [&](const std::string& path, const std::string& words) {
    const Error error = report_error({path});
    EXPECT_EQ(error.kind, ErrorKind::kBadData);
    EXPECT_TRUE(has(error.message, words)) << error.message;
  };
  refused(folder_ / "nowhere", "does not exist");
  refused(folder_.path(), "no run directory: it has no metrics.jsonl");
  folder_.write("other/metrics.jsonl", "{}\n");
  folder_.write("other/manifest.json", R"({"name":"something else"})");
  refused(folder_ / "other", "not the manifest of a run of Lockstep");
  const std::string run = run_directory();
  folder_.write("run/metrics.jsonl", "{\"epoch\":0}\nnonsense\n");
  refused(run, "metrics.jsonl', line 2: not a JSON object");
  EXPECT_TRUE(checkpoint::pt::write(posix_env(), folder_ / "w.pt", Value::dict({{"a", 1}})).ok());
  refused(folder_ / "w.pt", "has no TRAIN_HISTORY: it is no save of the tutorial's trainer");
  refused(save("uneven.pt", {1, 2, 3}, {60}),
          "TRAIN_HISTORY has 3 values, VALID_HISTORY 3, EPOCH_TIMES 1");
  refused(folder_.write("page.pt", "<html>"), "neither a zip nor a pickle");
  refused(folder_.write("a.json", "[]"), "not JSON of the form");
  refused(folder_.write("b.json", R"({"runs":[{"name":"x","top1":"high"}]})"),
          "\"top1\" is no number");
  refused(folder_.write("c.json", R"({"runs":[{"name":"x","train":[[1,2]]}]})"), "has a point");
}

TEST_F(Report, WrongOptions) {
  EXPECT_EQ(report_error({}).kind, ErrorKind::kUsage);
  EXPECT_TRUE(has(report_error({TUTORIAL_001, "--csv", "--json"}).message, "give one of"));
  EXPECT_TRUE(
      has(report_error({TUTORIAL_001, "--markdwon"}).message, "did you mean '--markdown'?"));
  EXPECT_EQ(report_error({TUTORIAL_001, "--budget", "soon"}).kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace lockstep::inspect
