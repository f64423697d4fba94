// A run without a data set (Step::open()): one epoch without end, in which each share counts 1.
//
// Errors: kUsage. Threads: functions.
#pragma once

#include <cstdint>

#include "lockstep/data.h"
#include "lockstep/run_options.h"

namespace lockstep::training {

// Whether no option speaks of a data set or of epochs. Errors: kUsage, which names the first that
// does.
Status check_without_data(const RunOptions& options);
// In the place of the data set's: more steps than any run has.
data::DataPlan plan_without_data(int virtual_workers, std::uint64_t seed);

}  // namespace lockstep::training
