// What a run's options may be, said of the options' names on the command line.
#include <cmath>

#include "base/text.h"
#include "train/option_rules.h"
#include "train/run.h"

namespace lockstep::train {
namespace {

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

Status Run::check_options() const {
  const auto wrong = [](const std::string& what) { return Error{ErrorKind::kUsage, what}; };
  if (train_ == nullptr) return wrong("a run needs a training set");
  if (state_.optimizers().empty()) return wrong("the train state has no optimizer; add one");
  for (const auto& each : state_.optimizers()) LOCKSTEP_TRY(each->check());
  for (const auto& each : state_.schedulers()) LOCKSTEP_TRY(each->check());
  if (options_.output.empty()) return wrong("--output is empty; give the run directory's path");
  if (options_.resume.empty())
    return wrong("--resume is empty; give auto, never or a checkpoint's path");
  LOCKSTEP_TRY(obey(kEpochs, options_));
  LOCKSTEP_TRY(obey(kBatchSize, options_));
  LOCKSTEP_TRY(obey(kMaxSteps, options_));
  if (!std::isfinite(options_.clip_grad_norm) || options_.clip_grad_norm < 0)
    return wrong("clip_grad_norm is " + shortest(options_.clip_grad_norm) +
                 "; a finite number, at least 0 (0: none)");
  LOCKSTEP_TRY(obey(kCheckpointEvery, options_));
  LOCKSTEP_TRY(obey(kKeepCheckpoints, options_));
  LOCKSTEP_TRY(obey(kLogEvery, options_));
  LOCKSTEP_TRY(obey(kVirtualWorkers, options_));
  LOCKSTEP_TRY(obey(kEvaluationBatchSize, options_));
  if (test_ == nullptr && (epochs.best_of == BestOf::kLoss || epochs.best_of == BestOf::kAccuracy))
    return wrong(
        "Trainer::best() by an evaluation's loss or accuracy needs a test set; give "
        "fit() one, or say BestOf::kTrainLoss");
  if (test_ != nullptr && test_->size() < 1) return wrong("the test set is empty");
  return {};
}

}  // namespace lockstep::train
