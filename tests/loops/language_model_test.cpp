// examples/language_model: rows carried from step to step, killed in each phase, and beside the
// plain loop.
#include "example_run.h"

namespace lockstep::test {
namespace {

// With 8 steps an epoch.
class LanguageModel : public ExampleRun {
 protected:
  LanguageModel()
      : ExampleRun(LANGUAGE_MODEL, {"--pieces", "32", "--max-steps", "14", "--checkpoint-every",
                                    "3", "--log-every", "4"}) {}
};

// Step 5, in the text, and step 8, which begins it anew.
TEST_F(LanguageModel, EndsWithTheSameWeightsWhoeverDiesInWhichPhase) {
  expect_one_end_whoever_dies(in_each_phase({"5", "8"}));
}

TEST_F(LanguageModel, GoesOnAfterAllHaveDied) {
  expect_one_end_after_all_have_died("10", "txn=11 phase=backward");
}

// 20 steps of 12 an epoch.
TEST_F(LanguageModel, WithOneWorkerIsThePlainLoop) {
  const Outcome outcome =
      run({LANGUAGE_MODEL, "--max-steps", "20", "--pieces", "12", "--output", folder_ / "run"});
  expect_the_plain_loop(outcome, LANGUAGE_MODEL_PLAIN, 20, {"20", "12"});
}

}  // namespace
}  // namespace lockstep::test
