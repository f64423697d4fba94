// The session of a program that runs without the launcher: one worker, its memory anonymous.
#pragma once

#include <memory>
#include <string_view>

#include "lockstep/status.h"
#include "worker/session.h"

namespace lockstep::worker {

// Errors: kUnavailable if not even a small board can be mapped.
Result<std::unique_ptr<Session>> open_alone();

// A run's lines to standard output. The first time that it takes none is told on standard error;
// the run goes on, as under the launcher.
void print_alone(std::string_view lines);

}  // namespace lockstep::worker
