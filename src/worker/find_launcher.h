// Which `lockstep` supervises what a program begins itself.
#pragma once

#include <string>

#include "lockstep/status.h"

namespace lockstep::worker {

// LOCKSTEP_LAUNCHER if it is set; else beside this program (which the library is a part of), or in
// the bin folder of its build or installation; else in PATH.
// Errors: kUsage, with all places, if there is none; for a file that is not `lockstep`; and for one
// of another version, with both; `call` is part of the message. Threads: any, while nobody
// changes the environment.
Result<std::string> find_launcher(const std::string& call);

}  // namespace lockstep::worker
