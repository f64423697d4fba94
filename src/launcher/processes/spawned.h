// A run that lockstep::spawn() has begun: its zygote is there before the launcher, whose process
// has forked it and then executed `lockstep run` (src/worker/spawn.h).
//
// Errors: kUsage for a variable that nobody but spawn() has a reason to set, and for options that
// such a run cannot have. Threads: the main thread.
#pragma once

#include <sys/types.h>

#include <optional>

#include "base/unique_fd.h"
#include "launcher/options/options.h"
#include "launcher/program/program.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

struct Zygote {
  UniqueFd socket;
  pid_t pid = -1;  // our child
};

struct Spawned {
  Zygote zygote;
  int workers = 1;  // spawn()'s first argument
};

// Also one that has ended and is not reaped.
bool is_child(pid_t pid);

// Takes it out of the environment; nullopt: this launcher was started by hand.
Result<std::optional<Spawned>> take_spawned();

Status check_options(const Spawned& spawned, const LaunchOptions& options);

// The one that has begun the run, by spawn() or started by hand: nothing is executed.
Program running_program(const LaunchOptions& options);

}  // namespace lockstep::launcher
