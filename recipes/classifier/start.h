// How the tutorial's small programs start: by workers of their own, as mp.spawn starts them, or
// under the launcher, by hand, alone.
#pragma once

#include <functional>

#include "lockstep/command_line.h"
#include "lockstep/context.h"
#include "lockstep/status.h"

namespace classifier {

// --spawn N. `workers`: 0 where others start them.
void add_spawn(lockstep::CommandLine& line, int& workers);

// Ends the process. Threads: main's.
[[noreturn]] void start(int workers,
                        const std::function<lockstep::Status(lockstep::Context&)>& train);

}  // namespace classifier
