// What the updates of a step have taught so far beyond the state: their losses, whether one has
// changed anything, whether one ends the run; of those to come, what the step before has taught. In
// a tensor of the state, so that a newcomer, which applies the last of them alone, knows of the
// others.
//
// Threads: one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/named_tensors.h"

namespace lockstep::training {

class StepMemory {
 public:
  explicit StepMemory(std::int64_t updates);

  struct Update {
    double loss = 0;  // NaN where no share took part
    bool changed = false;
    bool ends_run = false;
    bool not_finite = false;  // a loss
  };
  // In the place of the same one of the step before.
  void add(std::int64_t number, const Update& update);
  // Of one that is there.
  void end_run(std::int64_t number) { at(number, kEndsRun) = 1; }

  // Of the newest such update.
  bool was_not_finite(std::int64_t number) const { return at(number, kNotFinite) != 0; }
  // Of a step, once all of its updates are there.
  bool changed() const { return of_all(kChanged); }
  bool ends_run() const { return of_all(kEndsRun); }
  // By update; nullopt: of none.
  std::vector<std::optional<double>> losses() const;

  // For TrainState::add().
  NamedTensors state() const { return {{"updates", tensor_}}; }

 private:
  enum Place : std::int64_t { kLoss, kChanged, kEndsRun, kNotFinite, kPlaces };
  bool of_all(Place place) const;
  double& at(std::int64_t update, Place place) const;
  const std::int64_t updates_;
  at::Tensor tensor_;  // fp64, [updates, kPlaces]
};

}  // namespace lockstep::training
