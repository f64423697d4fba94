// How a Context comes to be, and the worker's talk with the launcher, which it keeps to itself.
#pragma once

#include <memory>

#include "lockstep/context.h"
#include "worker/session.h"

namespace lockstep {

worker::Session& session_of(Context& context);

// What comes before the fork point; the number of threads. kUsage, and as `call` if the process has
// passed its fork point before.
Result<int> prepare_worker(const char* call, const InitOptions& options);
// What comes after it, once in a process.
Context begin_worker(std::unique_ptr<worker::Session> session, int threads);

}  // namespace lockstep
