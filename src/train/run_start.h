// Where a run begins: anew, elsewhere (Trainer::start_from), or where the one in its directory is.
// Used in this order: read_directory(), virtual_workers(), bring_origin(), settle().
//
// Ownership: refers to all that it is given, for as long as a run begins. Errors: kUsage; kBadData;
// kDisk. A run that is refused leaves the directory as it was. Threads: one.
#pragma once

#include <optional>

#include "coord/run_time.h"
#include "lockstep/context.h"
#include "rundir/manifest.h"
#include "train/checkpoints.h"
#include "train/run_identity.h"
#include "train/run_spec.h"
#include "worker/session.h"

namespace lockstep::training {

// V: the option, else that of the run that is gone on with, else the number of workers asked for.
Result<int> virtual_workers_of(const RunOptions& options, const rundir::RunManifest* gone_on_with,
                               int world_size);

class RunStart {
 public:
  RunStart(Context& context, RunSpec& spec, const Hooks& hooks, const TrainState& state)
      : context_(context), spec_(spec), hooks_(hooks), state_(state) {}

  Status read_directory();
  // kUsage for more workers than that.
  Result<int> virtual_workers() const;
  // A run begins elsewhere at its first start alone; from then on its manifest says so. Started
  // again before its first checkpoint, it needs those weights again, and no others.
  Result<std::optional<Origin>> bring_origin();
  // The state is that of the start of this transaction.
  Result<Txn> settle(const rundir::RunManifest& manifest, Checkpoints& checkpoints,
                     const worker::Admission& admission);
  // After settle(): the time limit, what it has used of it, and the stop that is in force.
  coord::RunTime time() const { return time_; }
  const std::optional<Checkpoints::Loaded>& gone_on_from() const { return gone_on_from_; }

 private:
  bool goes_on() const { return before_.has_value() && spec_.options.resume != "never"; }
  Txn go_on_from(const Checkpoints::Loaded& loaded);
  Result<std::optional<Txn>> begin_elsewhere(bool first);
  std::string what_else_begins() const;
  Status start_over(const rundir::RunManifest& manifest) const;
  rundir::RunManifest for_directory(rundir::RunManifest manifest, Txn next) const;
  void say_finished(Txn committed) const;
  Status heed_stop(bool first);

  Context& context_;
  RunSpec& spec_;
  const Hooks& hooks_;
  const TrainState& state_;
  std::optional<rundir::RunManifest> before_;  // the run directory's, if a run is there
  std::optional<Origin> origin_;
  coord::RunTime time_;
  std::optional<Checkpoints::Loaded> gone_on_from_;
};

}  // namespace lockstep::training
