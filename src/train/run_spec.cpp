#include "train/run_spec.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "train/option_rules.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kMostTxns = std::int64_t{1} << 62;

template <class T>
Status obey(const NumberRule<T>& rule, const RunOptions& options) {
  const T value = options.*rule.field;
  const auto& [least, most] = rule.limits;
  if (value >= least && value <= most) return {};
  return Error{ErrorKind::kUsage, std::string(rule.name) + " is " + std::to_string(value) + "; " +
                                      (value < least ? "at least " + std::to_string(least)
                                                     : "at most " + std::to_string(most))};
}

}  // namespace

// Said of the options' names on the command line.
Status check_options(const RunSpec& spec, const Hooks& hooks, const TrainState& state) {
  const RunOptions& options = spec.options;
  const auto wrong = [](const std::string& what) { return Error{ErrorKind::kUsage, what}; };
  if (spec.train == nullptr) return wrong("a run needs a training set");
  if (state.optimizers().empty()) return wrong("the train state has no optimizer; add one");
  for (const auto& each : state.optimizers()) LOCKSTEP_TRY(each->check());
  for (const auto& each : state.schedulers()) LOCKSTEP_TRY(each->check());
  if (state.scaler() != nullptr) LOCKSTEP_TRY(state.scaler()->check());
  if (options.output.empty()) return wrong("--output is empty; give the run directory's path");
  if (options.resume.empty())
    return wrong("--resume is empty; give auto, never or a checkpoint's path");
  LOCKSTEP_TRY(obey(kEpochs, options));
  LOCKSTEP_TRY(obey(kBatchSize, options));
  LOCKSTEP_TRY(obey(kAccumulationSteps, options));
  LOCKSTEP_TRY(obey(kMaxSteps, options));
  if (!std::isfinite(options.clip_grad_norm) || options.clip_grad_norm < 0)
    return wrong("clip_grad_norm is " + shortest(options.clip_grad_norm) +
                 "; a finite number, at least 0 (0: none)");
  LOCKSTEP_TRY(obey(kCheckpointEvery, options));
  LOCKSTEP_TRY(obey(kKeepCheckpoints, options));
  LOCKSTEP_TRY(obey(kLogEvery, options));
  LOCKSTEP_TRY(obey(kVirtualWorkers, options));
  LOCKSTEP_TRY(obey(kEvaluationBatchSize, options));
  if (spec.test == nullptr && (hooks.best == BestOf::kLoss || hooks.best == BestOf::kAccuracy))
    return wrong(
        "Trainer::best() by an evaluation's loss or accuracy needs a test set; give "
        "fit() one, or say BestOf::kTrainLoss");
  if (spec.test != nullptr && spec.test->size() < 1) return wrong("the test set is empty");
  return {};
}

Status make_plans(RunSpec& spec, const Hooks& hooks, int virtual_workers, bool keeps_book) {
  const RunOptions& options = spec.options;
  spec.evaluates = spec.test != nullptr && hooks.evaluation != nullptr;
  data::DataPlan& data_plan = spec.data_plan;
  data_plan.dataset_size = spec.train->size();
  data_plan.virtual_workers = virtual_workers;
  data_plan.batch_size = options.batch_size;
  data_plan.seed = options.seed;
  data_plan.shuffle = options.shuffle;
  data_plan.drop_last_batch = options.drop_last;
  if (options.shuffle == data::Shuffle::kLegacy || options.shuffle == data::Shuffle::kDataLoader)
    data_plan.generator_state = data::default_generator_state();
  LOCKSTEP_TRY(data_plan.check());
  Plan& plan = spec.plan;
  plan.batches_per_epoch = data_plan.steps_per_epoch();
  plan.batches_per_step = std::min(options.accumulation_steps, plan.batches_per_epoch);
  plan.steps_per_epoch =
      (plan.batches_per_epoch + plan.batches_per_step - 1) / plan.batches_per_step;
  if (spec.samples_per_share() > kMostSamples)
    return Error{ErrorKind::kUsage,
                 "--accumulation-steps is " + std::to_string(options.accumulation_steps) +
                     "; with --batch-size " + std::to_string(options.batch_size) + " at most " +
                     std::to_string(kMostSamples / options.batch_size)};
  if (const std::int64_t most = kMostTxns / (plan.steps_per_epoch + 1); options.epochs > most)
    return Error{ErrorKind::kUsage, "--epochs is " + std::to_string(options.epochs) + "; with " +
                                        std::to_string(plan.steps_per_epoch) +
                                        " steps an epoch at most " + std::to_string(most)};
  plan.epochs = options.epochs;
  plan.max_steps = options.max_steps;
  plan.exports = hooks.exports != nullptr || hooks.best != BestOf::kNothing;
  plan.ends_epochs = keeps_book && (spec.evaluates || hooks.ends_epochs());
  return {};
}

}  // namespace lockstep::train
