// The processes behind lockstep::spawn(), without libtorch (docs/design/launching.md):
//
//   caller ── agent: forked, then executes `lockstep run`
//               ├── zygote: forked before that, keeps what the workers are to run
//               └── workers: forked from the zygote, adopted by the agent
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/status.h"
#include "worker/session.h"

namespace lockstep::worker {

struct SpawnCall {
  int workers = 1;
  std::vector<std::string> options;                     // of `lockstep run`
  std::function<void(std::unique_ptr<Session>)> lives;  // in each worker; does not return
};

// kUsage inside a run, which is named, and in a program that `lockstep run` has started.
Status check_outside_of_runs();

// In the caller, until the run is over. INT, TERM, HUP and QUIT go to the run meanwhile; the one
// that it ended by is raised again afterwards.
// Errors: kUsage for a second thread and for no launcher that fits; kUnavailable for what the
// system refuses; else of the kind that has the run's exit code, whose own error was told
// on standard error. Threads: the main thread, with no other alive.
Status spawn(const SpawnCall& call);

}  // namespace lockstep::worker
