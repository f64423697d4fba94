// RunOptions::deterministic, in force. Threads: the setting is the process's.
#pragma once

#include "lockstep/run_options.h"

namespace lockstep::training {

void use_deterministic_algorithms(Deterministic mode);
// libtorch's error for an operation that has no deterministic form names its own setting: with ours
// added. All others as they are.
Error with_own_option(Error error);

}  // namespace lockstep::training
