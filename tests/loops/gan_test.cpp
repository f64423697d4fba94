// examples/gan: two updates a step, killed in each phase of each, and beside the plain loop.
#include "example_run.h"

namespace lockstep::test {
namespace {

class Gan : public ExampleRun {
 protected:
  Gan()
      : ExampleRun(GAN, {"--max-steps", "12", "--batch-size", "8", "--checkpoint-every", "3",
                         "--log-every", "4"}) {}
};

// Transactions 10 and 11 are the two updates of step 5.
TEST_F(Gan, EndsWithTheSameWeightsWhoeverDiesInWhichPhaseOfWhichUpdate) {
  EXPECT_EQ(count(launched(4).out, "Loss: "), 3);
  expect_one_end_whoever_dies(in_each_phase({"10", "11"}));
}

TEST_F(Gan, GoesOnAfterAllHaveDiedInASecondUpdate) {
  expect_one_end_after_all_have_died("13", "txn=15 phase=backward");
}

TEST_F(Gan, WithOneWorkerIsThePlainLoop) {
  const Outcome outcome = run({GAN, "--max-steps", "20", "--batch-size", "16", "--shuffle",
                               "sequential", "--output", folder_ / "run"});
  int update = 0;
  for (const std::string& record : expect_the_plain_loop(outcome, GAN_PLAIN, 40, {"20", "16"})) {
    const std::string words = ",\"update\":" + std::to_string(update++ % 2) + ",";
    EXPECT_NE(record.find(words), std::string::npos) << record;
  }
}

}  // namespace
}  // namespace lockstep::test
