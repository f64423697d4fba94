// What a run's options may be, said of the options' names on the command line.
#include <cmath>
#include <limits>

#include "base/text.h"
#include "train/run.h"

namespace lockstep::train {
namespace {

Status in_range(const char* name, std::int64_t value, std::int64_t least,
                std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  if (value >= least && value <= most) return {};
  return Error{ErrorKind::kUsage, std::string(name) + " is " + std::to_string(value) + "; " +
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
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  LOCKSTEP_TRY(in_range("--epochs", options_.epochs, 1));
  LOCKSTEP_TRY(in_range("--batch-size", options_.batch_size, 1, most));
  LOCKSTEP_TRY(in_range("--max-steps", options_.max_steps, 0));
  if (!std::isfinite(options_.clip_grad_norm) || options_.clip_grad_norm < 0)
    return wrong("clip_grad_norm is " + shortest(options_.clip_grad_norm) +
                 "; a finite number, at least 0 (0: none)");
  LOCKSTEP_TRY(in_range("--checkpoint-every", options_.checkpoint_every, 0));
  LOCKSTEP_TRY(in_range("--keep-checkpoints", options_.keep_checkpoints, 1));
  LOCKSTEP_TRY(in_range("--log-every", options_.log_every, 0));
  LOCKSTEP_TRY(in_range("evaluation_batch_size", options_.evaluation_batch_size, 1, most));
  if (test_ != nullptr && test_->size() < 1) return wrong("the test set is empty");
  const auto shares = static_cast<int>(coord::kMaxVirtualWorkers);
  if (options_.virtual_workers >= 0 && options_.virtual_workers <= shares) return {};
  return wrong("--virtual-workers is " + std::to_string(options_.virtual_workers) + "; 1 to " +
               std::to_string(shares) + ", or 0 for the number of workers");
}

}  // namespace lockstep::train
