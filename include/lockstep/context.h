// The start of every program that links Lockstep.
//
// init() is the fork point (spawn.h has another way): under `lockstep run` the code before it runs
// once per node, the code after it once per worker, in a process forked from there. So parse
// options before it, and make models and threads after it. RANK and its kin exist only after it.
// Without the launcher it makes an ordinary single process.
#pragma once

#include <memory>

#include "lockstep/status.h"

namespace lockstep {

namespace worker {
class Session;
}

struct InitOptions {
  // Of the CPU kernels, in each worker; part of the run's manifest since it decides bits. 0:
  // OMP_NUM_THREADS if set, else 1. At most 1024.
  int threads = 0;
};

class Context {
 public:
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;

  // As of the start; membership may change later. torchrun's meaning.
  int rank() const;
  int local_rank() const;
  int world_size() const;
  bool launched() const;  // by `lockstep run` or spawn()
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
// console's reader may go away, and a write gets EPIPE.
//
// Errors: kUsage for a second thread (its name is told), for a number of threads out of range or
// for a libtorch of another version than the headers (both are told); kUnavailable when the
// launcher is gone. Threads: call once, from main's thread.
[[nodiscard]] Result<Context> init(const InitOptions& options = {});

// Ends the process as `main` should: prints the error if there is one, tells the launcher, flushes,
// and leaves with the documented exit code (docs/guide/errors.md) without libtorch's 70 ms of
// static destructors.
[[noreturn]] void exit_with(Context& context, const Status& status);
[[noreturn]] void exit_with(const Error& error);

}  // namespace lockstep
