// Processes that were started by hand become workers of one run. They find each other by an
// abstract Unix socket, named by user, address and port: whoever binds it starts the launcher
// with it.
//
//   rank 0 ─┐
//   rank 1 ─┼─ agent: executes `lockstep run`, a session of its own, nobody's child
//   rank 2 ─┘
//
// docs/design/launching.md has the order of things.
#pragma once

#include "lockstep/status.h"
#include "worker/fork_point.h"
#include "worker/meeting.h"

namespace lockstep::worker {

// Waits until the launcher has taken this process in, `meeting.wait` at most.
// Errors: kUsage as the launcher gives it (a rank that is taken, another number of ranks or
// version), and for no launcher that fits; kUnavailable where it cannot be started or does not
// answer.
// Threads: any number may run; while it forks they need nothing of it.
Result<Birth> attach(const Meeting& meeting);

// Starts the launcher on a bound socket: a session leader without parent, terminal or standard
// output, whose standard error is the caller's until rank 0 has come.
Status start_agent(const Meeting& meeting, int listener);

}  // namespace lockstep::worker
