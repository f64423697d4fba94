// What the first live worker says at a run's end: the tutorial's last line, the weights' hash, and
// result.json.
#pragma once

#include <cstdint>

#include "train/run_spec.h"
#include "worker/session.h"

namespace lockstep::training {

// `trained`: a step or more in this start. Without, an equal result that is there stays, with the
// seconds that it has.
worker::Finale finale(const RunSpec& spec, const TrainState& state, std::int64_t steps,
                      double seconds, bool trained);

}  // namespace lockstep::training
