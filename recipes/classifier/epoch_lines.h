// What the classifier says at an epoch's end and at its own, character for character as the
// tutorial. Threads: pure functions.
#pragma once

#include <string>

#include "lockstep/trainer.h"

namespace classifier {

// Python's repr() of a float.
std::string python_number(double value);

// `Prev Best Val Acc: 0.0 < Cur Val Acc: 0.75`, where this epoch is the best so far.
std::string best_lines(const lockstep::EpochEnd& end);
// `Finished saving model`, if it was, and the four lines `(Epoch 2/5) …`.
std::string epoch_lines(const lockstep::EpochEnd& end);

}  // namespace classifier
