// What the program's loop gives to run() for a step: its updates, in order.
//
// Ownership: refers to the spec and the state. Errors: kUsage. Threads: one.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "lockstep/state.h"
#include "lockstep/step.h"
#include "train/given_optimizers.h"
#include "train/run_spec.h"

namespace lockstep::training {

struct GivenUpdate {
  OptimizerList optimizers;
  const Step::Closure* loss = nullptr;
};

class GivenStep {
 public:
  GivenStep(const RunSpec& spec, const TrainState& state) : spec_(spec), state_(state) {}

  void give(std::vector<GivenUpdate> updates) { updates_ = std::move(updates); }
  const std::vector<GivenUpdate>& updates() const { return updates_; }
  // The optimizers of each; none where there is no choice.
  std::vector<OptimizerList> choices() const;

  // Whether there are as many as a step has. `global_step`: which one it is.
  Status check(std::int64_t global_step) const;
  // Whether they are of the optimizers that the start before has given for the same step, which
  // begins with transaction `txn`.
  Status check_as_before(Txn txn, const std::vector<OptimizerList>& then) const;

 private:
  const RunSpec& spec_;
  const TrainState& state_;
  std::vector<GivenUpdate> updates_;
};

}  // namespace lockstep::training
