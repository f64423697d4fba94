// What a run directory says of its run: for `lockstep status`, of a run that is finished or stopped
// all of it, of a live one what its launcher does not know. Reads only.
//
// Errors: kUnavailable for a directory that holds no run. What is missing or damaged in it is left
// out. Threads: any.
#pragma once

#include <string>

#include "base/env.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

// One JSON object (schema 1). `state`: "finished" or "stopped", or "held" while some process has
// the directory's lock (a program without a launcher, or one that ends). Fields as far as they are
// known: program, virtual_workers, committed, steps, epoch, loss_mean, test_loss and test_accuracy
// or valid_loss and valid_accuracy, incidents, last_incident, checkpoint, weights_sha256, seconds;
// `members` is empty.
Result<std::string> run_report(Env& env, const std::string& run_dir);

// The launcher's own answer, with steps, epoch and the newest losses as run_report() has them.
std::string with_metrics(Env& env, const std::string& run_dir, const std::string& status);

// A run_report() for people.
std::string readable_report(const std::string& json);

}  // namespace lockstep::launcher
