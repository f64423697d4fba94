// The start of every program that links Lockstep.
//
// init() is the fork point (spawn.h has another way): under `lockstep run` the code before it runs
// once per node, the code after it once per worker, in a process forked from there. So parse
// options before it, and make models and threads after it. RANK and its kin exist only after it.
// Without the launcher it makes an ordinary single process.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/status.h"

namespace lockstep {

namespace worker {
class Session;
}

// How processes meet that were started by hand, one command for each rank, as in torch's
// init_process_group(init_method, rank, world_size). They make one run under a launcher that the
// first of them starts; a killed one is not started again, but the same command joins them again.
struct Rendezvous {
  // "tcp://HOST:PORT", of this machine: a name among all runs, on which nothing listens. Blank, or
  // "env://": MASTER_ADDR and MASTER_PORT.
  std::string address = {};
  // -1, as in torch: RANK and WORLD_SIZE; where neither is set, 0 and 1. One of several ranks that
  // nothing tells which it is: kUsage.
  int rank = -1;
  int world_size = -1;  // 1 to 128; 1 meets nobody: that process runs alone
  // For all ranks, at the first start; that of whoever comes first. At most 30 minutes. Without it
  // the variable LOCKSTEP_INIT_TIMEOUT says so, in whole seconds; without that, 300 s.
  std::optional<std::chrono::milliseconds> wait = std::nullopt;
};

struct InitOptions {
  // Of the CPU kernels, in each worker; part of the run's manifest since it decides bits. 0:
  // OMP_NUM_THREADS if set, else 1. At most 1024.
  int threads = 0;
  // Without it a process that MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE are set for meets the
  // others by these, as with torch's env://. Under the launcher neither counts, nor do variables in
  // spawn().
  std::optional<Rendezvous> rendezvous = std::nullopt;
};

class Context {
 public:
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;

  // As of the start; membership may change later. torchrun's meaning. What a step computes must
  // depend on none of them: how many shares a step has is V, which is another number than
  // world_size() as soon as workers have come or gone, or with --virtual-workers. run_so_far()
  // (run_options.h) says it before the run, and a Share which of them it is.
  int rank() const;
  int local_rank() const;
  int world_size() const;
  bool launched() const;  // a launcher supervises it: every run but that of a process alone
  int threads() const { return threads_; }

 private:
  // The library's own.
  friend Context begin_worker(std::unique_ptr<worker::Session> session, int threads);
  friend worker::Session& session_of(Context& context);
  Context(std::unique_ptr<worker::Session> session, int threads);
  std::unique_ptr<worker::Session> session_;
  int threads_ = 1;
};

// A launched worker ignores SIGPIPE from here on, unless the program has a handler of its own: the
// console's reader may go away, and a write gets EPIPE. TERM, INT and HUP likewise end the run, or
// take this worker out, after the step under way (docs/design/launching.md, "Signals").
// Errors: kUsage for a second thread (its name is told), for a number of threads out of range or
// for a libtorch of another version than the headers (both are told); kUnavailable when the
// launcher is gone. Of a Rendezvous: kUsage for an address that is not this machine's, a rank that
// is taken or out of range, another number of ranks, no launcher that fits (spawn.h says where it
// is looked for), and for a blank address where nothing else says where the others are;
// kUnavailable where not all ranks come in time.
//
// Started by hand, a process loses its launcher only where that is killed: it then says so and ends
// at once with exit code 1. Threads: call once, from main's thread.
[[nodiscard]] Result<Context> init(const InitOptions& options = {});

// For what main() prints before init(): whether it is the first to say so on this node. Always,
// but under `lockstep run --start-method exec`, where each worker runs all of main(): there in the
// first rank 0 alone. Ranks by hand each have a terminal of their own. By the environment, once;
// threads: main's.
[[nodiscard]] bool is_first_main();

// Ends the process as `main` should: prints the error if there is one, tells the launcher, flushes,
// and leaves with the documented exit code (docs/guide/errors.md) without libtorch's 70 ms of
// static destructors.
[[noreturn]] void exit_with(Context& context, const Status& status);
[[noreturn]] void exit_with(const Error& error);

}  // namespace lockstep
