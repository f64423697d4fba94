// A tar archive's folders and files, below a folder.
//
// Errors: kDisk; kBadData with the archive's name for what read_tar() refuses. Threads: any, one at
// a time per folder.
#pragma once

#include <string>

#include "base/env.h"
#include "data/stopped.h"
#include "lockstep/status.h"

namespace lockstep::data {

// kOnReturn: each file is on storage (their names may not be). kLater: the caller sees to it.
enum class Durable { kOnReturn, kLater };

// An error leaves what was unpacked until then.
// `stopped`: kUnavailable soon after it says so.
Status extract(Env& env, const std::string& archive, const std::string& folder, Durable durable,
               const Stopped& stopped = {});

}  // namespace lockstep::data
