// What the manifest says of a data set's content, so that a run does not go on with another.
//
// Errors: those of Dataset::get(). Threads: functions.
#pragma once

#include <string>

#include "lockstep/data.h"
#include "rundir/manifest.h"

namespace lockstep::training {

// Sets NAME_fingerprint, if the set has one, and NAME_probe_xxh3, of inputs and targets of at most
// 16 samples spread evenly: what a set delivers may be changed on the way (a transform).
Status add_data(rundir::RunManifest& manifest, const std::string& name,
                const data::Dataset& dataset);

}  // namespace lockstep::training
