// The tutorial's model_results.ipynb: a saved model on photographs that it has not seen.
#pragma once

#include "lockstep/status.h"
#include "options.h"
#include "photographs.h"

namespace time_budget {

// Prints loss, top-1 accuracy and each class's; with --json writes them for `lockstep report`.
// `options.evaluate`: NAME.pt, or a checkpoint's folder of a run.
lockstep::Status evaluate(const Options& options, const Photographs& photographs);

}  // namespace time_budget
