// lockstep::spawn() with a Rendezvous: one command of several, each of which brings some of a run's
// ranks, without libtorch (docs/design/launching.md, "From commands by hand"):
//
//   caller ── ranks 0, 1 ┐
//   caller ── ranks 2, 3 ┴ one run, under the launcher that the first of them has started
#pragma once

#include <functional>
#include <memory>

#include "lockstep/context.h"
#include "lockstep/status.h"
#include "worker/session.h"

namespace lockstep::worker {

struct RanksCall {
  int workers = 1;
  Rendezvous first;                                     // of the first of them
  std::function<void(std::unique_ptr<Session>)> lives;  // in each; does not return
};

// In the caller, until all its ranks have ended; they are killed if it is. A killed rank is told,
// and not started again. INT, TERM, HUP and QUIT go to all.
// Errors: kUsage for a second thread, for ranks out of range and for what a Rendezvous cannot be;
// kUnavailable for what the system refuses; kResumable where a signal ended every rank; else of the
// kind of the first rank's exit code that was not 0, whose own error was told on standard error.
// Threads: the main thread, with no other alive.
Status run_ranks(const RanksCall& call);

}  // namespace lockstep::worker
