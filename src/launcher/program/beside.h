// The launcher's other programs, which are installed beside it. Threads: any.
#pragma once

#include <string>

#include "lockstep/status.h"

namespace lockstep::launcher {

// The path of that program in this one's folder, whether it is there or not. kUsage: nobody knows
// that folder.
Result<std::string> program_beside(const std::string& name);

}  // namespace lockstep::launcher
