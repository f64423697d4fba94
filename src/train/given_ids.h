// What a data set says it has given, in training and evaluation alike.
#pragma once

#include <cstdint>

#include "lockstep/data.h"

namespace lockstep::training {

// How many of the samples asked for were left out as damaged, by Batch::ids. kUsage: these are not
// one for each sample that was asked for and given.
Result<std::int64_t> missing_samples(const data::Batch& batch, std::int64_t asked);

}  // namespace lockstep::training
