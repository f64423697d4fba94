// One run as a report knows it, and where that comes from. A figure that the source does not have
// stays empty: it is shown as missing, never made up.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "lockstep/status.h"

namespace lockstep::inspect {

struct Point {
  double epochs = 0;              // since the run's start
  std::optional<double> minutes;  // of run time
  double loss = 0;                // or another figure; finite
};

struct Run {
  std::string name, path;
  std::string directory;  // of a run; empty: figures from a file
  std::optional<double> workers;
  std::optional<double> learning_rate;  // at the start
  std::optional<double> global_batch;   // samples of a step
  std::optional<double> samples_per_epoch, steps_per_epoch;
  std::optional<double> epoch_time_s;  // mean
  std::optional<double> epochs_run;    // finished
  std::optional<double> budget_s;
  std::optional<double> best_validation_loss, best_validation_accuracy;  // of any evaluation
  std::optional<double> test_loss, top1;  // of the last one; accuracies are fractions
  std::vector<Point> train, validation, test;
  std::map<std::string, std::vector<Point>> sums;  // means of what shares add up, by name
};

// A run directory: manifest.json, metrics.jsonl, and times.jsonl if it is there.
Result<Run> read_run_directory(Env& env, const std::string& path);

// What the tutorial's trainer saves, NAME.pt or NAME_metrics.pt: EPOCHS_RUN, RUN_TIME (seconds),
// TRAIN_HISTORY, VALID_HISTORY (mean losses by epoch), EPOCH_TIMES (seconds), LOWEST_LOSS.
Result<Run> read_training_save(Env& env, const std::string& path);

// Runs as JSON, of `lockstep report --json` or by hand: {"runs": [{"name": ..., ...}]}, with the
// names of struct Run; null or left out: missing.
Result<std::vector<Run>> read_runs_json(Env& env, const std::string& path);

// By what lies there. kBadData for what is none of them.
Result<std::vector<Run>> read_runs(Env& env, const std::string& path);

}  // namespace lockstep::inspect
