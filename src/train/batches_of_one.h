// What PyTorch's BatchNorm says of a batch of one sample, before the run begins and where it ends
// it: "Expected more than 1 value per channel when training".
//
// Threads: one.
#pragma once

#include <optional>
#include <string>

#include "lockstep/state.h"
#include "lockstep/status.h"
#include "train/run_spec.h"

namespace lockstep::training {

// Of a run some of whose batches have one sample, and of a model with a BatchNorm in training mode:
// which, and what to do. It may be right all the same: where a channel has more than one value.
std::optional<std::string> warning_of_batches_of_one(const RunSpec& spec, const TrainState& state);

// With what to do, if it is that error.
Error with_remedy(Error error, const RunSpec& spec);

}  // namespace lockstep::training
