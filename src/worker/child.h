// What forked children of lockstep::spawn() and their callers need.
#pragma once

#include <sys/types.h>

#include "lockstep/status.h"

namespace lockstep::worker {

// The child gets `signal` when `parent` ends; it ends itself if that has happened already.
// Errors end the process, as end_with() does.
void die_with(pid_t parent, int signal);

// As the launcher's own children: in a session of its own, without the terminal, whose Ctrl-C is
// for the caller, who passes it on.
void leave_terminal();

// Tells the error, and ends the process with its exit code, without the caller's static objects.
[[noreturn]] void end_with(const Error& error);

// The kind that has this exit code; kAborted for codes of no kind.
ErrorKind kind_of(int code);

}  // namespace lockstep::worker
