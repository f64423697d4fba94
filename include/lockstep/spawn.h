// Workers without a command: the program starts its own, as mp.spawn() does in Python.
//
//   const lockstep::Status done = lockstep::spawn(4, [&](lockstep::Context& context) {
//     return train(context, options);
//   });
//   if (!done.ok()) lockstep::exit_with(done.error());
//
// A run under the launcher `lockstep` as any other: killed workers are replaced, the weights are
// those of `lockstep run`, `lockstep status` and `lockstep scale` know it.
//
// Workers are forked from here, replacements too, so what the caller has made is in each of them,
// as it was at the call, variables of the environment included; what they change is their own.
// Files that are open share their offset: open what is read in `fn`. Make models, threads and
// tensors in `fn`, for a process that has a second thread cannot be forked from. Standard input is
// the caller's, /dev/null if that is a terminal.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/context.h"
#include "lockstep/status.h"

namespace lockstep {

struct SpawnOptions {
  // Of each worker. With a rendezvous this command is one of several that make a run (one for each
  // node, in a tutorial): its `n` workers are the ranks from rendezvous->rank on. Then nobody
  // starts a killed one again; the others go on, and the command, once it is over, joins its ranks
  // again.
  InitOptions init;
  // Options of `lockstep run`, over its PET_* variables: {"--max-restarts", "3"}; none with a
  // rendezvous.
  std::vector<std::string> launcher;
};

// Calls `fn` in `n` workers (1 to 128), with the Context that init() would have given; returns in
// the caller once the run is over and all its processes are gone. A worker ends with fn's Status,
// by exit_with(), and never returns from here; an exception that leaves `fn` ends it with SIGABRT.
//
// With a rendezvous (SpawnOptions::init) it returns once its own `n` ranks have ended; the run may
// go on with those of other commands. Signals go to its ranks, and if it dies they are killed: the
// run goes on without them. A signal that has ended a rank of it ends the caller, too.
//
// The launcher is LOCKSTEP_LAUNCHER, or `lockstep` beside this program, in bin of its folder or of
// one of the three above, or in PATH; of this version.
//
// Signals: INT, TERM, HUP and QUIT go to the run, which ends in order; then the caller gets what
// ended it, and dies of it unless it has a handler. If the caller dies itself, the run ends as by
// TERM.
//
// Errors: kUsage for a second thread (its name is told), for a call inside a run or after init(),
// for a wrong option, and for no launcher that fits. Of a run that failed: the kind with its exit
// code (docs/guide/errors.md; kResumable for signals, kAborted for others); the first worker's
// own error was printed. Threads: main's thread, with no other alive; one run after the other.
//
// A program for both ways looks at inside_run() first, and calls init() there.
[[nodiscard]] Status spawn(int n, const std::function<Status(Context&)>& fn,
                           const SpawnOptions& options = {});

// Whether something else starts this program's workers: it is under `lockstep run` (before init()
// too) or torchrun, or is a worker of spawn(). By the environment. Threads: any, while nobody
// changes that.
[[nodiscard]] bool inside_run();

}  // namespace lockstep
