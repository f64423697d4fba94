// Threads: any.
#pragma once

namespace lockstep {

// CPUs that this process may use (its affinity mask), at least 1. All that are online where the
// mask has more than 1,024 bits.
int usable_cpus();

}  // namespace lockstep
