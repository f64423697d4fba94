// One at a time writes into a folder. The lock goes with the descriptor, so with the process, too.
#pragma once

#include <string>

#include "base/unique_fd.h"
#include "lockstep/status.h"

namespace lockstep::data {

// `what`: "copy". kUnavailable: another one is under way. kDisk: the folder cannot be opened.
// Locks on a folder by several descriptors of one process exclude each other as well.
Result<UniqueFd> lock_folder(const std::string& path, const std::string& what);

}  // namespace lockstep::data
