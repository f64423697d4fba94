#include "lockstep/spawn.h"

#include <memory>
#include <utility>

#include "context/session_of.h"
#include "coord/table.h"
#include "worker/ranks.h"
#include "worker/spawn.h"

namespace lockstep {

Status spawn(int n, const std::function<Status(Context&)>& fn, const SpawnOptions& options) {
  if (n < 1 || n > static_cast<int>(coord::kMaxWorkers))
    return Error{ErrorKind::kUsage, "lockstep::spawn(" + std::to_string(n) + ", ...): 1 to " +
                                        std::to_string(coord::kMaxWorkers) +
                                        " workers are possible"};
  if (!fn) return Error{ErrorKind::kUsage, "lockstep::spawn(): the function is empty"};
  LOCKSTEP_TRY(worker::check_outside_of_runs());
  LOCKSTEP_ASSIGN(const int threads, prepare_worker("lockstep::spawn()", options.init));
  // noexcept: an exception would lead out of the worker and into the caller's own code.
  const auto life = [&](std::unique_ptr<worker::Session> session) noexcept {
    Context context = begin_worker(std::move(session), threads);
    exit_with(context, fn(context));
  };
  if (!options.init.rendezvous) return worker::spawn({n, options.launcher, life});
  if (!options.launcher.empty())
    return Error{ErrorKind::kUsage,
                 "lockstep::spawn(): options of the launcher ('" + options.launcher.front() +
                     "', ...) with a rendezvous, whose launcher is started by whichever command "
                     "comes first: leave one of them out"};
  return worker::run_ranks({n, *options.init.rendezvous, life});
}

bool inside_run() { return !worker::check_outside_of_runs().ok(); }

}  // namespace lockstep
