// The ways that are not a Trainer and a plain model (main.cpp has those).
#pragma once

#include "lockstep/context.h"
#include "options.h"

namespace convnet {

// One process, each batch cut among replicas of the model.
lockstep::Status train_data_parallel(lockstep::Context& context, const Options& options);
// A loop of one's own in Horovod's names; it has no evaluation.
lockstep::Status train_horovod(lockstep::Context& context, const Options& options);

}  // namespace convnet
