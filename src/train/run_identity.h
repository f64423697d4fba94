// What the run directory says a run is: manifest.json and config.toml.
//
// Errors: those of the data sets; kDisk. Threads: functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/context.h"
#include "rundir/manifest.h"
#include "train/run_spec.h"

namespace lockstep::training {

// The run began elsewhere: there, from these weights.
struct Origin {
  StartPoint start;
  std::string weights_sha256;
  bool here = false;  // they are in the state now
};
// Of a run that is there; nullopt: it began from the seed.
std::optional<Origin> origin_of(const rundir::RunManifest& manifest);

Result<rundir::RunManifest> make_manifest(const Context& context, const RunSpec& spec,
                                          const Hooks& hooks, const TrainState& state,
                                          const std::optional<Origin>& origin);
Status write_identity(const RunSpec& spec, const rundir::RunManifest& manifest);

}  // namespace lockstep::training
