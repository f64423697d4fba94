// examples/moving_average: what every worker does at an update, killed in each phase.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/child.h"
#include "support/output.h"

namespace lockstep::test {
namespace {

class MovingAverage : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  // A new run of 4 virtual workers and two epochs, of which the second is not whole.
  Outcome launched(int workers, const Words& options) const {
    std::filesystem::remove_all(folder_ / "run");
    return again(workers, options);
  }
  Outcome again(int workers, const Words& options) const {
    Words words{LOCKSTEP_PROGRAM, "run", "--standalone", "--nproc-per-node",
                std::to_string(workers)};
    words.insert(words.end(), options.begin(), options.end());
    const Words program{
        MOVING_AVERAGE, "--virtual-workers",  "4", "--max-steps",      "24",  "--batch-size",
        "16",           "--checkpoint-every", "4", "--evaluate-every", "8ba", "--output",
        folder_ / "run"};
    words.insert(words.end(), program.begin(), program.end());
    return run(words);
  }
  // Of the last evaluation, and the weights.
  static std::string end_of(const Outcome& outcome) {
    const auto at = outcome.out.rfind("Accuracy");
    return hash_in(outcome) +
           (at == std::string::npos ? "" : outcome.out.substr(at, outcome.out.find('\n', at) - at));
  }
  void TearDown() override {
    EXPECT_TRUE(processes_with(folder_.path()).empty()) << "a process is left behind";
  }
  TempFolder folder_;
};

TEST_F(MovingAverage, EndsWithTheSameWeightsWhoeverDiesInWhichPhase) {
  const Outcome whole = launched(4, {});
  ASSERT_EQ(whole.code, 0) << whole.err;
  int phases = 0;
  for (const char* phase : {"data", "forward", "backward", "exchange", "optimizer", "evaluate"}) {
    const std::string txn = phase == std::string("evaluate") ? "" : " txn=10";
    // Each phase with two numbers of workers: 1 and 3, or 2 and 4.
    for (int workers = 1 + phases++ % 2; workers <= 4; workers += 2) {
      const std::string rank = std::to_string(phases % workers);
      const std::string fault = "kill rank=" + rank + txn + " phase=" + phase;
      const Outcome outcome = launched(workers, {"--max-restarts", "1", "--inject", fault});
      EXPECT_EQ(outcome.code, 0) << fault << ": " << outcome.err;
      EXPECT_EQ(killed_in(outcome), 1) << workers << ", " << fault << ": " << outcome.err;
      EXPECT_EQ(end_of(outcome), end_of(whole)) << workers << ", " << fault;
    }
  }
}

TEST_F(MovingAverage, GoesOnAfterAllHaveDied) {
  const Outcome whole = launched(3, {});
  // Whoever stands still for a second before is waited for, and a checkpoint is written meanwhile.
  const Outcome killed = launched(3, {"--max-restarts", "0", "--inject",
                                      "stop rank=2 txn=14; kill txn=15 phase=optimizer repeat=3"});
  EXPECT_NE(killed.code, 0);
  const Outcome rest = again(2, {});
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(rest.err.find("resuming from"), std::string::npos) << rest.err;
  EXPECT_EQ(end_of(rest), end_of(whole));
}

}  // namespace
}  // namespace lockstep::test
