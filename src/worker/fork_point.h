// The two ways a launched process gets its identity: forked from the zygote, or executed by the
// agent.
//
// Errors: kUsage for a second thread (named), kUnavailable when the agent is gone, kBadData for
// what is no fork request. Threads: the main thread, with no other alive.
#pragma once

#include <memory>
#include <string>

#include "base/signals_blocked.h"
#include "base/unique_fd.h"
#include "coord/messages.h"
#include "lockstep/status.h"

namespace lockstep::worker {

// What a worker starts with.
struct Birth {
  coord::message::ForkRequest request;
  UniqueFd control;   // its socket to the agent
  UniqueFd board;     // the memfd
  UniqueFd lifeline;  // of one that was started by hand: its end, and End, come from the agent
  // Of a forked one: signals wait until it has handlers.
  std::unique_ptr<SignalsBlocked> blocked;
};

// Takes the descriptor out of the environment; an empty UniqueFd if the variable is not set.
Result<UniqueFd> take_descriptor(const char* variable);

// kUsage if the process has a second thread, which is named: a forked worker would have its locks
// without the thread. `call` and `advice` are part of the message.
Status check_single_thread(const std::string& call, const std::string& advice);

// In the zygote, and in those that are forked from it: serves fork requests until the agent closes
// the socket, then ends the process; signals are no business of a zygote's. Returns in forked
// workers, with the environment set and their outputs in place.
Result<Birth> serve_forks(UniqueFd agent);

// The identity in the environment, as a program expects it.
void set_environment(const coord::message::ForkRequest& request);

// In an executed worker: reads its fork request.
Result<Birth> read_birth(UniqueFd agent);

}  // namespace lockstep::worker
