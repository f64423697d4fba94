// The session of a program that runs without the launcher: one worker, its memory anonymous.
#pragma once

#include <memory>

#include "lockstep/status.h"
#include "worker/session.h"

namespace lockstep::worker {

// Errors: kUnavailable if not even a small board can be mapped.
Result<std::unique_ptr<Session>> open_alone();

}  // namespace lockstep::worker
