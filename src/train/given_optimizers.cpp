#include "train/given_optimizers.h"

namespace lockstep::training {

Status same_optimizers(const TrainState& state, std::int64_t global_step, const GivenOptimizers& a,
                       const GivenOptimizers& b) {
  if (a.set == b.set) return {};
  const auto given = [&](const GivenOptimizers& those) {
    std::string names;
    for (std::size_t i = 0; i < state.optimizers().size(); ++i)
      if ((those.set >> i & 1) != 0)
        names += (names.empty() ? "'" : ", '") + state.optimizer_name(i) + "'";
    return names + " in " + those.where;
  };
  return Error{ErrorKind::kUsage,
               "step " + std::to_string(global_step) + ": run() was given " + given(a) + ", and " +
                   given(b) +
                   ". Which optimizer a step has is a function of step.global_step(), not of how "
                   "often the loop has gone round: a replacement comes in at the loop's top, at "
                   "any step"};
}

}  // namespace lockstep::training
