#include "base/env.h"
#include "context/session_of.h"
#include "rundir/manifest.h"
#include "train/run_start.h"

namespace lockstep {

// A newcomer finds the manifest of the very run that it joins, whatever --resume was to remove.
Result<RunSoFar> run_so_far(Context& context, const RunOptions& options) {
  std::optional<rundir::RunManifest> before;
  if (options.resume != "never" || session_of(context).identity().newcomer) {
    LOCKSTEP_ASSIGN(before, rundir::read_manifest(posix_env(), options.output));
  }
  RunSoFar run;
  LOCKSTEP_ASSIGN(run.virtual_workers,
                  training::virtual_workers_of(options, before ? &*before : nullptr,
                                               session_of(context).identity().world_size));
  if (before) run.manifest = before->values();
  return run;
}

}  // namespace lockstep
