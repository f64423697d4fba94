// The command line of `lockstep run`: torchrun's options as far as they make sense here, and ours.
//
// Every long option is accepted with dashes or underscores; its default comes from PET_<NAME>.
// Order: command line, environment, default. Abbreviations are refused. What follows the program's
// name is the program's own. Errors: kUsage, with the nearest known name. Threads: values.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coord/progress.h"
#include "launcher/options/nodes.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

enum class StartMethod { kAuto, kFork, kExec };

// Bits of --redirects and --tee.
enum Stream : unsigned { kNoStream = 0, kStdout = 1, kStderr = 2 };

// One value for all local ranks, or one for each that is named.
struct StreamMap {
  unsigned all = kNoStream;
  std::map<int, unsigned> by_rank;
  unsigned of(int local_rank) const {
    const auto found = by_rank.find(local_rank);
    return found != by_rank.end() ? found->second : all;
  }
  bool any() const { return all != 0 || !by_rank.empty(); }
};

enum class WorkersFrom { kNumber, kAuto, kGpu };  // kNumber: `cpu` too, which is one at once

struct LaunchOptions {
  int nproc_per_node = 1;  // of auto and gpu final after settle_workers() (gpus.h)
  WorkersFrom nproc_from = WorkersFrom::kNumber;
  bool standalone = false;
  int max_restarts = 0;
  int max_replacements = 10;
  std::string run_id = "none";
  std::string role = "default";
  StartMethod start_method = StartMethod::kAuto;
  bool no_python = false;
  bool linked = false;  // the program links Lockstep, though it does not show
  bool module = false;
  bool run_path = false;  // a Python script, whatever its name ends in
  // Each worker is local rank 0 of the one device that it sees.
  bool virtual_local_rank = false;
  std::vector<std::string> visible_devices;  // of CUDA_VISIBLE_DEVICES; empty: it is not set
  NodesOptions nodes;
  // Of one node.
  std::string master_addr = "127.0.0.1";
  int master_port = 0;  // also by --store-port; 0: a free one
  // Plain programs meet at a store of the agent's; else rank 0 serves theirs.
  bool share_store = true;
  std::string log_dir;  // empty: none; "/dev/null": no files, in no temporary folder either
  bool no_log_files() const { return log_dir == "/dev/null"; }
  StreamMap redirects, tee;
  std::vector<int> local_ranks_filter;  // empty: all
  // Of an end in order, the last checkpoint included; then KILL.
  std::chrono::milliseconds shutdown_timeout{30'000};
  // How long a worker may compute without progress in a phase that nobody has come through.
  std::optional<std::chrono::milliseconds> hang_timeout;  // none: see coord/hang_watch.h
  std::chrono::milliseconds stop_grace{1'000};  // how long a worker may be stopped (SIGSTOP)
  coord::ProgressMode progress;
  std::vector<int> signals_to_handle;         // as the user names them; see stop_signals()
  std::vector<std::string> notices;           // lines to be said at the start
  std::vector<std::string> notices_of_plain;  // the same, of programs that do not link Lockstep
  std::vector<std::string> of_linked;  // options given that concern programs with Lockstep alone
  std::vector<std::string> of_plain;   // and those that concern others alone
  std::string inject;                  // faults, for tests (worker/inject.h)
  std::vector<std::string> program;    // name and arguments, untouched
  bool help = false;
};

// Reads a variable of the environment; nullopt if it is not there.
using Environment = std::function<std::optional<std::string>(std::string_view)>;
Environment process_environment();

Result<LaunchOptions> parse_run_options(std::span<const std::string> arguments,
                                        const Environment& environment);

// kUsage if a stream or filter is for a local rank that no worker can have: they are below
// `workers`, and `why` says where that comes from.
Status check_local_ranks(const LaunchOptions& options, std::uint32_t workers,
                         const std::string& why);

// For `lockstep help run`.
std::string run_help();

}  // namespace lockstep::launcher
