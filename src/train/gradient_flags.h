// Which parameters get gradients (requires_grad), from phase to phase of a run: the loop may freeze
// and unfreeze at a step that is a function of the run's numbers. A step's flags are those of its
// run()'s begin; all workers must have the same; checkpoints and newcomers have them too.
//
// Threads: one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/state.h"
#include "train/plan.h"
#include "transaction/participant.h"

namespace lockstep::training {

class GradientFlags {
 public:
  // Of all parameters of the state, as they are now: the program's own, before it goes on or heals.
  explicit GradientFlags(const TrainState& state);

  // For TrainState::add(), which may outlive this: "0" or "1" (requires_grad) for each parameter in
  // the order of leaves() and own_parameters(); empty where all are as they were at first. Loading
  // sets them.
  TrainState::Text text() const;

  // `trained`: those that are in the exchange's plan. kUsage, if another one was unfrozen.
  void watch(const std::vector<ddp::Parameter>& trained);
  Status check() const;

 private:
  struct First {
    std::vector<TrainState::Named> parameters;
    std::vector<bool> wanted;  // a gradient
  };
  std::shared_ptr<const First> first_;
  std::vector<TrainState::Named> left_alone_;  // frozen, and of no optimizer
};

// Of two shares of the step under way whose records are marked: kUsage, which names the parameter,
// if it is frozen in the worker of one of them alone.
Status check_flags(const transaction::Participant& participant, std::uint32_t u, std::uint32_t v,
                   const Plan& plan, Txn txn);

// Whether this worker's flags are those that the dead had for this share, of which it left word.
Status check_inherited_flags(const ddp::Reducer& own, const transaction::ShareNotes& notes,
                             const Plan& plan, Txn txn);

}  // namespace lockstep::training
