// Where what a user saves may be written: anywhere but over a run's own files.
// Errors: kUsage, kDisk. Threads: any.
#pragma once

#include <string>

#include "base/env.h"

namespace lockstep::checkpoint {

// The place where a file of that name is written (place_to_write() in base/env.h); the folders on
// the way are made. kUsage: it is one of those that a run keeps in its directory, or
// would be among its checkpoints.
Result<std::string> place_of_user_file(Env& env, const std::string& path);

// Whether it can be written there, folders on the way being made: nothing is. kUsage: as above, or
// the folder is not to be written to. `run_dir`, where given, is to be a run's directory, and needs
// not be there yet.
Status check_user_file(Env& env, const std::string& path, const std::string& run_dir = "");

}  // namespace lockstep::checkpoint
