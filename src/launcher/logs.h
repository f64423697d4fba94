// Where the workers' output goes: torchrun's layout, --redirects, --tee and --local-ranks-filter.
//
//   <log-dir>/<run id>_<random>/attempt_<n>/<local rank>/{stdout.log,stderr.log,error.json}
//
// Unlike torchrun's, teed lines never tear each other.
//
// Errors: kDisk. Threads: one; pipes are read from the loop.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "launcher/console.h"
#include "launcher/loop.h"
#include "launcher/options.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

// The worker's ends; close them once it is started.
struct Outputs {
  UniqueFd out, err;
  std::string folder;  // of this attempt and local rank; empty without a log directory
};

class Logs {
 public:
  // Makes the run's folder where options ask for one. `loop` and `console` must outlive the object.
  static Result<Logs> open(const LaunchOptions& options, Loop& loop, Console& console);

  // A replacement appends to the logs of the worker that it replaces.
  Result<Outputs> open_worker(int attempt, int local_rank, int rank);
  // Reads what is still in the pipes and lets go of those that nobody writes to.
  void drain();
  const std::string& folder() const { return folder_; }

 private:
  struct Tee;  // one teed stream
  Logs(const LaunchOptions& options, Loop& loop, Console& console)
      : options_(&options), loop_(&loop), console_(&console) {}
  Result<UniqueFd> open_stream(const std::string& folder, Stream stream, int local_rank, int rank);
  bool on_console(int local_rank) const;
  void pump(Tee& tee);

  const LaunchOptions* options_;
  Loop* loop_;
  Console* console_;
  std::string folder_;
  std::vector<std::shared_ptr<Tee>> tees_;
};

}  // namespace lockstep::launcher
