// The optimizers of an update: what each worker's loop has given to run() must be the same.
// Errors: kUsage. Threads: functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "coord/board.h"
#include "lockstep/state.h"

namespace lockstep::training {

// At most so many in a state: a set of them is a number, a bit each.
inline constexpr std::size_t kMostOptimizers = 64;
static_assert(sizeof coord::ShareRecord::order == kMostOptimizers);

// Those of one update by their numbers in the state, each once, in the order given.
using OptimizerList = std::vector<std::size_t>;

std::uint64_t set_of(const OptimizerList& optimizers);
void write_to(coord::ShareRecord& record, const OptimizerList& optimizers);
OptimizerList optimizers_of(const coord::ShareRecord& record);
// XXH3 of all groups' rates of all.
std::uint64_t rates_hash(const TrainState& state, const OptimizerList& optimizers);
// In words: "'generator', 'discriminator'".
std::string names_of(const TrainState& state, const OptimizerList& optimizers);

// Optimizers, and where: "the worker of virtual worker 1".
struct GivenOptimizers {
  OptimizerList optimizers;
  std::string where;
};

// kUsage where they differ: both by name, and why they must not. `step`: "step 5".
Status same_optimizers(const TrainState& state, const std::string& step, const GivenOptimizers& a,
                       const GivenOptimizers& b);

}  // namespace lockstep::training
