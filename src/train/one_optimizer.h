// One optimizer a step: what each worker's loop has given to run() must be the same.
// Errors: kUsage. Threads: functions.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/state.h"

namespace lockstep::training {

// Which of the state's optimizers, and where: "the worker of virtual worker 1".
struct GivenOptimizer {
  std::uint64_t number = 0;
  std::string where;
};

// kUsage where they are two: both by name, and why they must not be.
Status same_optimizer(const TrainState& state, std::int64_t global_step, const GivenOptimizer& a,
                      const GivenOptimizer& b);

}  // namespace lockstep::training
