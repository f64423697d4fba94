// The optimizers of a step: what each worker's loop has given to run() must be the same.
// Errors: kUsage. Threads: functions.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/state.h"

namespace lockstep::training {

// At most so many in a state: a set of them is a number, a bit each.
inline constexpr std::size_t kMostOptimizers = 64;

// Which of the state's optimizers, and where: "the worker of virtual worker 1".
struct GivenOptimizers {
  std::uint64_t set = 0;
  std::string where;
};

// kUsage where they differ: both by name, and why they must not.
Status same_optimizers(const TrainState& state, std::int64_t global_step, const GivenOptimizers& a,
                       const GivenOptimizers& b);

}  // namespace lockstep::training
