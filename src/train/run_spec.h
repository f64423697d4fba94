// What a run is, once its options are understood: they, the data, and the plans that follow.
//
// Errors: kUsage. Threads: values.
#pragma once

#include <memory>

#include "lockstep/data.h"
#include "lockstep/state.h"
#include "lockstep/trainer.h"
#include "train/hooks.h"
#include "train/plan.h"

namespace lockstep::training {

struct RunSpec {
  RunOptions options;
  // train: none in a run without data (without_data.h); test: may be none
  std::shared_ptr<const data::Dataset> train, test;
  data::DataPlan data_plan;
  Plan plan;               // the program may end it early
  double max_seconds = 0;  // the shorter of the option's and a max_duration of time; 0: no limit
  bool evaluates = false;

  bool has_data() const { return train != nullptr; }
  // At most, in a step.
  std::int64_t samples_per_share() const { return data_plan.batch_at(0) * plan.batches_per_step; }
  // A checkpoint is due before this step; time apart, of which each worker knows another.
  bool checkpoint_due(const Position& at) const;
  // The step ends an interval of log_every, or begins one.
  bool line_due(const Position& at) const;
  bool line_begins(const Position& at) const;
  // The step reaches another so many of them, counted from the run's start. `every`: no time.
  bool reaches(const Duration& every, const Position& at) const;
  std::int64_t samples_per_epoch() const;                 // of all virtual workers
  std::int64_t samples_before(const Position& at) const;  // of all virtual workers
  std::uint32_t virtual_workers() const {
    return static_cast<std::uint32_t>(data_plan.virtual_workers);
  }
};

// Whether options, data and state are fit for a run.
Status check_options(const RunSpec& spec, const Hooks& hooks, const TrainState& state);
// Sets the plans. `keeps_book`: epochs may have an end of their own.
Status make_plans(RunSpec& spec, const Hooks& hooks, int virtual_workers, bool keeps_book);

}  // namespace lockstep::training
