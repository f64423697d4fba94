// examples/gan: two updates a step, killed in each phase of each, and beside the plain loop.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "support/child.h"
#include "support/output.h"

namespace lockstep::test {
namespace {

class Gan : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  // A new run in which virtual workers are four.
  Outcome launched(int workers, const Words& options) const {
    std::filesystem::remove_all(folder_ / "run");
    return again(workers, options);
  }
  Outcome again(int workers, const Words& options) const {
    Words words{LOCKSTEP_PROGRAM, "run", "--standalone", "--nproc-per-node",
                std::to_string(workers)};
    words.insert(words.end(), options.begin(), options.end());
    const Words program{GAN,
                        "--virtual-workers",
                        "4",
                        "--max-steps",
                        "12",
                        "--batch-size",
                        "8",
                        "--checkpoint-every",
                        "3",
                        "--log-every",
                        "4",
                        "--output",
                        folder_ / "run"};
    words.insert(words.end(), program.begin(), program.end());
    return run(words);
  }
  void TearDown() override {
    EXPECT_TRUE(processes_with(folder_.path()).empty()) << "a process is left behind";
  }
  TempFolder folder_;
};

// Transactions 10 and 11 are the two updates of step 5.
TEST_F(Gan, EndsWithTheSameWeightsWhoeverDiesInWhichPhaseOfWhichUpdate) {
  const Outcome whole = launched(4, {});
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(count(whole.out, "Loss: "), 3) << whole.out;
  int round = 0;
  for (const char* txn : {"10", "11"})
    for (const char* phase : {"data", "forward", "backward", "exchange", "optimizer"})
      // Each phase with 1 and 3 workers in one of the updates, with 2 and 4 in the other.
      for (int workers = 1 + round++ % 2; workers <= 4; workers += 2) {
        const std::string rank = std::to_string(round % workers);
        const std::string fault = "kill rank=" + rank + " txn=" + txn + " phase=" + phase;
        const Outcome outcome = launched(workers, {"--max-restarts", "1", "--inject", fault});
        EXPECT_EQ(outcome.code, 0) << fault << ": " << outcome.err;
        EXPECT_EQ(killed_in(outcome), 1) << workers << ", " << fault << ": " << outcome.err;
        EXPECT_EQ(hash_in(outcome), hash_in(whole)) << workers << ", " << fault;
      }
}

TEST_F(Gan, GoesOnAfterAllHaveDiedInASecondUpdate) {
  const Outcome whole = launched(3, {});
  // Whoever stands still for a second before is waited for, and a checkpoint is written meanwhile.
  const Outcome killed = launched(3, {"--max-restarts", "0", "--inject",
                                      "stop rank=2 txn=13; kill txn=15 phase=backward repeat=3"});
  EXPECT_NE(killed.code, 0);
  const Outcome rest = again(2, {});
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(rest.err.find("resuming from"), std::string::npos) << rest.err;
  EXPECT_EQ(hash_in(rest), hash_in(whole));
}

// Each loss that it prints, in the order of the run's metrics, and its parameters.
TEST_F(Gan, WithOneWorkerIsThePlainLoop) {
  const Outcome outcome = run({GAN, "--max-steps", "20", "--batch-size", "16", "--shuffle",
                               "sequential", "--output", folder_ / "run"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Outcome plain = run({GAN_PLAIN, folder_ / "run/checkpoints/step-00000040", "20", "16"});
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(count(plain.out, "differs"), 0) << plain.out;
  EXPECT_EQ(count(plain.out, "compared"), 1) << plain.out;
  std::istringstream losses(plain.out), metrics(read_text(folder_ / "run/metrics.jsonl"));
  std::string line, record;
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(std::getline(losses, line) && std::getline(metrics, record)) << i;
    const std::string update = ",\"update\":" + std::to_string(i % 2) + ",";
    EXPECT_NE(record.find(update), std::string::npos) << record;
    const auto at = record.find("\"loss\":");
    ASSERT_NE(at, std::string::npos) << record;
    EXPECT_EQ(std::stod(record.substr(at + 7)), std::stod(line)) << i << ": " << record;
  }
}

}  // namespace
}  // namespace lockstep::test
