// A run whose workers are started by hand: the first of them has bound the socket that the others
// find it by, and has executed `lockstep run` with it (src/worker/attach.h).
//
// Errors: kUsage for a variable that nobody but such a worker has a reason to set. Threads: the
// main thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "launcher/options/options.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

struct Attached {
  UniqueFd listener;
  int workers = 1;
  std::chrono::milliseconds wait{};  // for all ranks, at the first start
  std::string host;
  int port = 0;
  UniqueFd starter;  // pidfd of the process that has started this one; none: it is gone

  std::string address() const;  // for messages: tcp://HOST:PORT
};

// Takes it out of the environment; nullopt: there is none.
Result<std::optional<Attached>> take_attached();

// What such a run cannot have, whatever PET_* variables say: others start its workers, and they
// write where they please.
void fit_options(LaunchOptions& options, const Attached& attached);

// Whether the process is stopped (SIGSTOP, Ctrl-Z), by /proc/PID/stat.
bool is_stopped(pid_t pid);

}  // namespace lockstep::launcher
