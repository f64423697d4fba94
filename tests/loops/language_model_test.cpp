// examples/language_model: rows carried from step to step, killed in each phase, and beside the
// plain loop.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "support/child.h"
#include "support/output.h"

namespace lockstep::test {
namespace {

class LanguageModel : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  // A new run in which virtual workers are four, with 8 steps an epoch.
  Outcome launched(int workers, const Words& options) const {
    std::filesystem::remove_all(folder_ / "run");
    return again(workers, options);
  }
  Outcome again(int workers, const Words& options) const {
    Words words{LOCKSTEP_PROGRAM, "run", "--standalone", "--nproc-per-node",
                std::to_string(workers)};
    words.insert(words.end(), options.begin(), options.end());
    const Words program{
        LANGUAGE_MODEL, "--virtual-workers",  "4", "--pieces",    "32", "--max-steps",
        "14",           "--checkpoint-every", "3", "--log-every", "4",  "--output",
        folder_ / "run"};
    words.insert(words.end(), program.begin(), program.end());
    return run(words);
  }
  void TearDown() override {
    EXPECT_TRUE(processes_with(folder_.path()).empty()) << "a process is left behind";
  }
  TempFolder folder_;
};

// Step 5, in the text, and step 8, which begins it anew.
TEST_F(LanguageModel, EndsWithTheSameWeightsWhoeverDiesInWhichPhase) {
  const Outcome whole = launched(4, {});
  ASSERT_EQ(whole.code, 0) << whole.err;
  int round = 0;
  for (const char* txn : {"5", "8"})
    for (const char* phase : {"data", "forward", "backward", "exchange", "optimizer"})
      // Each phase with 1 and 3 workers in one of the steps, with 2 and 4 in the other.
      for (int workers = 1 + round++ % 2; workers <= 4; workers += 2) {
        const std::string rank = std::to_string(round % workers);
        const std::string fault = "kill rank=" + rank + " txn=" + txn + " phase=" + phase;
        const Outcome outcome = launched(workers, {"--max-restarts", "1", "--inject", fault});
        EXPECT_EQ(outcome.code, 0) << fault << ": " << outcome.err;
        EXPECT_EQ(killed_in(outcome), 1) << workers << ", " << fault << ": " << outcome.err;
        EXPECT_EQ(hash_in(outcome), hash_in(whole)) << workers << ", " << fault;
      }
}

TEST_F(LanguageModel, GoesOnAfterAllHaveDied) {
  const Outcome whole = launched(3, {});
  // Whoever stands still for a second before is waited for, and a checkpoint is written meanwhile.
  const Outcome killed = launched(3, {"--max-restarts", "0", "--inject",
                                      "stop rank=2 txn=10; kill txn=11 phase=backward repeat=3"});
  EXPECT_NE(killed.code, 0);
  const Outcome rest = again(2, {});
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(rest.err.find("resuming from"), std::string::npos) << rest.err;
  EXPECT_EQ(hash_in(rest), hash_in(whole));
}

// Each loss that it prints, and its parameters; 20 steps of 12 an epoch.
TEST_F(LanguageModel, WithOneWorkerIsThePlainLoop) {
  const Outcome outcome =
      run({LANGUAGE_MODEL, "--max-steps", "20", "--pieces", "12", "--output", folder_ / "run"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Outcome plain =
      run({LANGUAGE_MODEL_PLAIN, folder_ / "run/checkpoints/step-00000020", "20", "12"});
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(count(plain.out, "differs"), 0) << plain.out;
  EXPECT_EQ(count(plain.out, "compared"), 1) << plain.out;
  std::istringstream losses(plain.out), metrics(read_text(folder_ / "run/metrics.jsonl"));
  std::string line, record;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(std::getline(losses, line) && std::getline(metrics, record)) << i;
    const auto at = record.find("\"loss\":");
    ASSERT_NE(at, std::string::npos) << record;
    EXPECT_EQ(std::stod(record.substr(at + 7)), std::stod(line)) << i << ": " << record;
  }
}

}  // namespace
}  // namespace lockstep::test
