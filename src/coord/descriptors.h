// Environment variables by which a process learns how it was started; those with the number of an
// inherited socket are removed once read.
#pragma once

#include "base/process_setup.h"

namespace lockstep::coord {

inline constexpr const char* kZygoteVariable = "LOCKSTEP_ZYGOTE_FD";  // serve fork requests
inline constexpr const char* kWorkerVariable = "LOCKSTEP_WORKER_FD";  // be a worker
// Of an executed worker: main() has begun in another one, or in its predecessor, already.
using lockstep::kLaterMainVariable;
// Of a worker that the launcher takes for one that knows nothing of Lockstep: the command's name.
inline constexpr const char* kPlainVariable = "LOCKSTEP_PLAIN_PROGRAM";
// Of a worker: numbers, with commas, of signals that ask it for an end beside TERM, INT and HUP.
inline constexpr const char* kSignalsVariable = "LOCKSTEP_SIGNALS";
// For `lockstep run`, from lockstep::spawn(): "SOCKET:PID:N", of the zygote that is there already,
// its child, and the number of workers.
inline constexpr const char* kSpawnedVariable = "LOCKSTEP_SPAWNED";
// For `lockstep run`, from a program that was started by hand: "SOCKET:N:MS:PORT:HOST", of the
// socket that it has bound and listens on, the number of ranks, and how long the first start may
// take.
inline constexpr const char* kAttachedVariable = "LOCKSTEP_ATTACHED";

}  // namespace lockstep::coord
