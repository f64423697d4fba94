// examples/moving_average: what every worker does at an update, killed in each phase.
#include "example_run.h"

namespace lockstep::test {
namespace {

// Two epochs, of which the second is not whole.
class MovingAverage : public ExampleRun {
 protected:
  MovingAverage()
      : ExampleRun(MOVING_AVERAGE, {"--max-steps", "24", "--batch-size", "16", "--checkpoint-every",
                                    "4", "--evaluate-every", "8ba"}) {}

  // Of the last evaluation, and the weights.
  std::string end_of(const Outcome& outcome) const override {
    const auto at = outcome.out.rfind("Accuracy");
    return hash_in(outcome) +
           (at == std::string::npos ? "" : outcome.out.substr(at, outcome.out.find('\n', at) - at));
  }
};

TEST_F(MovingAverage, EndsWithTheSameWeightsWhoeverDiesInWhichPhase) {
  Words moments = in_each_phase({"10"});
  moments.push_back("phase=evaluate");
  expect_one_end_whoever_dies(moments);
}

TEST_F(MovingAverage, GoesOnAfterAllHaveDied) {
  expect_one_end_after_all_have_died("14", "txn=15 phase=optimizer");
}

}  // namespace
}  // namespace lockstep::test
