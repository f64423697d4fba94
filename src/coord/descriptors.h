// Environment variables by which the agent hands a process the number of an inherited socket; the
// process removes them once read.
#pragma once

namespace lockstep::coord {

inline constexpr const char* kZygoteVariable = "LOCKSTEP_ZYGOTE_FD";  // serve fork requests
inline constexpr const char* kWorkerVariable = "LOCKSTEP_WORKER_FD";  // be a worker

}  // namespace lockstep::coord
