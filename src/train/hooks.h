// What a program gives its run to call: Trainer's hooks, under its names (lockstep/trainer.h says
// when and where each is called), and what Step has of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/step.h"
#include "lockstep/trainer.h"
#include "train/best_by.h"
#include "train/update_hooks.h"

namespace lockstep::training {

struct Hooks {
  // What a share's loss is; may change between steps, as long as it does in all workers alike.
  Step::Closure loss;
  // With it and a test set, an epoch's end is evaluated.
  Evaluation evaluation;
  EvaluatedOn evaluated_on = EvaluatedOn::kTestSet;
  BestBy best;
  std::vector<std::function<void(const EpochEnd&)>> schedules;
  // Those that step at each update, by the mean loss of its samples.
  struct UpdateSchedule {
    const LRScheduler* scheduler;
    std::function<void(double loss)> step;
  };
  std::vector<UpdateSchedule> update_schedules;
  bool plateau_of_accuracy = false;  // one of these steps by it
  std::function<std::string(const StepEnd&)> step_lines;
  std::function<std::string(const EpochEnd&)> epoch_lines, export_lines;
  std::function<Result<bool>(const EpochEnd&)> exports;
  std::function<bool(const EpochEnd&)> stop_when;
  std::function<Result<std::optional<StartPoint>>()> start_from;
  std::function<void(std::int64_t epoch, std::int64_t step)> on_resume;
  std::function<Status()> on_finished;
  UpdateHooks on_update;

  // What follows from an evaluation's accuracy, for messages; nullptr: nothing does.
  const char* of_accuracy() const {
    if (best.of == BestOf::kAccuracy) return "Trainer::best() by accuracy";
    return plateau_of_accuracy ? "ReduceLROnPlateau with mode kMax (of accuracy)" : nullptr;
  }
  bool steps_per_update(const LRScheduler* scheduler) const {
    return std::ranges::count(update_schedules, scheduler, &UpdateSchedule::scheduler) > 0;
  }
  // Evaluation apart.
  bool ends_epochs() const {
    return exports || epoch_lines || stop_when || !schedules.empty() || !best.nothing();
  }
};

}  // namespace lockstep::training
