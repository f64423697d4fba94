// The session of a program that runs without the launcher: one worker, its memory anonymous.
#pragma once

#include <memory>

#include "lockstep/status.h"
#include "worker/session.h"

namespace lockstep::worker {

// Errors: kUnavailable if not even a small board can be mapped.
Result<std::unique_ptr<Session>> open_alone();

// The lock of a run directory: flock on the directory itself. Waits for an earlier run's last
// process until the deadline. Errors: kUnavailable when it is held, kDisk when the directory cannot
// be opened.
Result<UniqueFd> lock_run_directory(const std::string& path, Deadline deadline);

}  // namespace lockstep::worker
