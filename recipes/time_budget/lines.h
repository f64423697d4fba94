// The tutorial's printed lines; where its ranks print, here its virtual workers do, in order.
#pragma once

#include <string>

#include "lockstep/trainer.h"

namespace time_budget {

// "Learning Rate = 0.00014142".
std::string rate_lines(int virtual_workers, double lr);
// At an epoch's first step: "[GPU0] Epoch: 0 | Batch_SZ: 32 | Steps: 650 | T_loss: inf | V_loss:
// inf", the losses being the epoch before's.
std::string step_lines(const lockstep::StepEnd& end);
// "Training snapshot saved at ...", the time so far and, where that is all, the last line.
std::string export_lines(const lockstep::EpochEnd& end, const std::string& snapshot);

}  // namespace time_budget
