// Whether this process may have as many descriptors as a node, or a leader, needs.
//
// Errors: kUnavailable, with the remedy. Threads: any.
#pragma once

#include "launcher/options/options.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

// Raises its limit as far as it may.
Status check_descriptors(const LaunchOptions& options, bool leads);

}  // namespace lockstep::launcher
