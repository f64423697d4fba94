#include "train/one_optimizer.h"

namespace lockstep::training {

Status same_optimizer(const TrainState& state, std::int64_t global_step, const GivenOptimizer& a,
                      const GivenOptimizer& b) {
  if (a.number == b.number) return {};
  const auto given = [&](const GivenOptimizer& one) {
    return "'" +
           (one.number < state.optimizers().size() ? state.optimizer_name(one.number)
                                                   : "number " + std::to_string(one.number)) +
           "' in " + one.where;
  };
  return Error{ErrorKind::kUsage,
               "step " + std::to_string(global_step) + ": run() was given " + given(a) + ", and " +
                   given(b) +
                   ". Which optimizer a step has is a function of step.global_step(), not of how "
                   "often the loop has gone round: a replacement comes in at the loop's top, at "
                   "any step"};
}

}  // namespace lockstep::training
