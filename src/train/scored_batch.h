// One batch of an evaluation: what Trainer and evaluate() have in common.
#pragma once

#include "lockstep/score.h"

namespace lockstep::training {

// What the data set leaves out is counted; where nothing is left, `evaluation` is not called.
// Errors: the data set's; what `evaluation` throws passes.
Result<Score> scored_batch(const data::Dataset& set, std::int64_t batch_size, std::int64_t index,
                           const Evaluation& evaluation);

}  // namespace lockstep::training
