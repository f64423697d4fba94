// Learning rates over epochs or updates: torch.optim.lr_scheduler's StepLR, LambdaLR and
// ReduceLROnPlateau, with the sequences of Python's (torch 2.11), to the last bit. Names, meanings
// and defaults are PyTorch's.
//
//   lockstep::StepLR scheduler(optimizer, 30, 0.1);  // optimizer and model are in `state`
//   LOCKSTEP_TRY(state.add("scheduler", scheduler));
//   LOCKSTEP_TRY(step.open(train_set));
//   for (;;) {
//     LOCKSTEP_ASSIGN(const bool more, step.next());
//     if (!more) break;
//     if (step.global_step() > 0 && step.global_step() % step.steps_per_epoch() == 0)
//       scheduler.step();
//     LOCKSTEP_TRY(step.run(optimizer, loss));
//   }
//
// It stands between next() and run(), where the loop's own code counts once a step, whoever dies
// and wherever a run goes on: what comes after run() is not called in a newcomer for the step that
// it joined with. One that steps at each update: `if (step.global_step() > 0) scheduler.step();`
// there; where a step has several updates, in a hook, behind the optimizer's step():
//
//   step.on_update([&](const lockstep::UpdateEnd&) { scheduler.step(); });  // before open()
//
// Ownership: refers to the optimizer, which outlives it; no copies. Threads: one at a time. Errors:
// check() says kUsage for settings that PyTorch refuses, before a run begins. State: in the train
// state (TrainState::add, Trainer::schedule), so that checkpoints and newcomers have it; the rates
// are the optimizer's. A run refuses a scheduler of its optimizers that is not there: after a
// resume it would begin anew and lower the rates twice.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/named_tensors.h"
#include "lockstep/optim.h"
#include "lockstep/status.h"

namespace lockstep {

class LRScheduler {
 public:
  explicit LRScheduler(Optimizer& optimizer);
  virtual ~LRScheduler();
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;
  // Tensors of fixed shape that keep their address, under unique names.
  virtual NamedTensors state() const = 0;
  // Kind and settings, for the run's manifest.
  virtual std::string settings() const = 0;
  virtual Status check() const = 0;

 protected:
  Optimizer& optimizer_;

 private:
  std::shared_ptr<std::vector<const LRScheduler*>> all_;  // the optimizer's
};

// Every `step_size` calls of step() the rate of each group is multiplied by gamma.
class StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma = 0.1);
  void step();
  std::int64_t last_epoch() const;
  NamedTensors state() const override;
  std::string settings() const override;
  Status check() const override;

 private:
  std::int64_t step_size_;
  double gamma_;
  at::Tensor last_epoch_;  // int64 scalar
};

// The rate of each group is its initial one, which it has when the scheduler is made, times what
// the function says for last_epoch(): 0 from then on, one more at each step(). A warmup:
//   lockstep::LambdaLR warmup(
//       optimizer, [](std::int64_t t) { return std::min(1.0, static_cast<double>(t + 1) / 100); });
// The function is no part of the state or the manifest: it must be the same in all workers and
// whenever the run goes on, and depend on its argument alone. Initial rates and last_epoch() are in
// the state. check() refuses an empty function, and another number of them than of groups.
class LambdaLR : public LRScheduler {
 public:
  using Lambda = std::function<double(std::int64_t)>;
  LambdaLR(Optimizer& optimizer, Lambda lr_lambda);                // of all groups
  LambdaLR(Optimizer& optimizer, std::vector<Lambda> lr_lambdas);  // one for each
  void step();
  std::int64_t last_epoch() const;
  std::vector<double> base_lrs() const;  // by group
  NamedTensors state() const override;
  std::string settings() const override;
  Status check() const override;

 private:
  void set_rates();
  std::vector<Lambda> lr_lambdas_;
  at::Tensor base_lrs_;    // float64, one for each group
  at::Tensor last_epoch_;  // int64 scalar
};

struct ReduceLROnPlateauOptions {
  enum class Mode { kMin, kMax };
  enum class ThresholdMode { kRel, kAbs };
  Mode mode = Mode::kMin;
  double factor = 0.1;
  std::int64_t patience = 10;  // epochs without improvement that are let pass
  double threshold = 1e-4;
  ThresholdMode threshold_mode = ThresholdMode::kRel;
  std::int64_t cooldown = 0;  // epochs after a reduction in which nothing is counted
  double min_lr = 0;
  double eps = 1e-8;  // a smaller change of the rate is left out
};

// The rate of each group is multiplied by `factor` once the metric has not improved for more than
// `patience` calls of step().
class ReduceLROnPlateau : public LRScheduler {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options = {});
  void step(double metric);
  const ReduceLROnPlateauOptions& options() const { return options_; }
  double best() const;
  std::int64_t num_bad_epochs() const;
  NamedTensors state() const override;
  std::string settings() const override;
  Status check() const override;

 private:
  bool is_better(double metric) const;
  void reduce();
  ReduceLROnPlateauOptions options_;
  at::Tensor best_;      // float64 scalar
  at::Tensor counters_;  // int64: last epoch, bad epochs, epochs of cooldown left
};

}  // namespace lockstep
