// Optimizers with the bits of Python's torch.optim (single-tensor form, torch 2.11). The C++
// frontend's Adam rounds differently (mul_ + add_ in place of lerp_), hence these. Names, meanings
// and defaults are PyTorch's, but that its betas are two fields: betas=(0.5, 0.999) is
// {.beta1 = 0.5, .beta2 = 0.999}.
//
//   lockstep::SGD sgd(model->parameters(), {.lr = 0.1, .momentum = 0.9});
//   lockstep::AdamW adamw({{encoder->parameters(), {.lr = 1e-5}},
//                          {head->parameters(), {.lr = 1e-3, .weight_decay = 0.1}}});
//
// Shapes: any dense parameters on the CPU; state has each parameter's shape and dtype. A parameter
// that is given twice (a submodule under two names; Python's parameters() leaves out the second)
// counts once. Ownership: parameters are shared with the model.
// Threads: one at a time. Errors: settings out of range are told by check(), which a run calls
// before it begins; a parameter without gradient is skipped, as in PyTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/named_tensors.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/status.h"

namespace lockstep {

// PyTorch's param_groups: parameters that share settings.
template <class Options>
struct ParamGroup {
  std::vector<at::Tensor> parameters;
  Options options;
};

class LRScheduler;

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One update from the parameters' grad(). Inside a Lockstep step it is called by the library, at
  // the commit, once in each worker: a class of the program's own may do more there (a running
  // average, clamps), and what it writes to parameters, to buffers and to its state() lasts. grad()
  // is then a copy of this worker's own, which it may write to.
  virtual void step() = 0;
  void zero_grad();  // grad() becomes undefined (set_to_none=True, PyTorch's default)

  // Part of the state, so that a newcomer's first update has the rates that a schedule has set in
  // the others. Without a group: of all of them, or the first one's.
  double lr(std::size_t group = 0) const;
  void set_lr(double lr);
  void set_lr(std::size_t group, double lr);
  std::vector<double> rates() const;  // by group
  std::size_t groups() const { return static_cast<std::size_t>(lr_.numel()); }
  // All rates in one number, to compare workers by.
  std::uint64_t rates_hash() const;

  // Everything that the next step() depends on besides parameters and gradients, as tensors of
  // fixed shape that keep their address: what checkpoints and newcomers copy. Names are unique. The
  // base class has "lr" (float64, one for each group).
  virtual NamedTensors state();
  // As a new one is: moments and counters of steps back to zero, for a phase that begins; rates and
  // other settings stay. In a run between next() and run(), at a step that is a function of
  // global_step(), or in an update's hook; in a closure it is an error. Of a kind of one's own: all
  // of state() but "lr" becomes zeros; one whose state begins otherwise overrides it.
  virtual void reset_state();
  // torch.optim's state_dict(), with all the keys of 2.11: what save_pt() writes for Python. The
  // tensors are the optimizer's own (each "step" is a new one). Without groups: a kind of one's own
  // that does not say.
  virtual OptimizerStateDict state_dict() const;
  // Takes such a state over as torch.optim does, parameters matched by their order in the groups:
  // the tensors' values, the rates and the other settings. kBadData names the first thing that does
  // not fit (number of groups and parameters; names, shapes and dtypes of tensors; momentum or
  // amsgrad on one side alone; Adam's for AdamW) and nothing is changed. SGD's has no "step": one
  // update stands for any number. Ignored: foreach, fused, capturable, differentiable (ways to
  // compute) and what schedulers keep there (initial_lr). A run's manifest has the settings as they
  // are when it begins: who takes them over from a file, does so at each start.
  virtual Status load_state_dict(const OptimizerStateDict& given);
  // Its kind and what it was made with, for the run's manifest: a run goes on only under equal
  // settings. The rates are those it has now.
  virtual std::string settings() const;
  // kUsage, in PyTorch's words, for settings that torch.optim refuses (and for those not finite).
  virtual Status check() const;
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  // Those that change its rates, as long as they live: a run wants them in its train state.
  const std::vector<const LRScheduler*>& schedulers() const { return *schedulers_; }

 protected:
  // Groups come one after the other; each rate is its group's.
  Optimizer(const std::vector<std::vector<at::Tensor>>& groups, const std::vector<double>& rates);
  std::size_t group_of(std::size_t parameter) const { return group_of_[parameter]; }
  // For state_dict(): the groups' parameters, numbered from 0, without settings.
  std::vector<OptimizerStateDict::Group> numbered_groups() const;
  // For load_state_dict(): what `given` has of each parameter (nullptr: nothing); kBadData if it
  // has other groups.
  Result<std::vector<const NamedTensors*>> matched(const OptimizerStateDict& given) const;

  std::vector<at::Tensor> parameters_;

 private:
  friend class LRScheduler;
  std::vector<std::size_t> group_of_;  // by parameter
  std::shared_ptr<std::vector<const LRScheduler*>> schedulers_ =
      std::make_shared<std::vector<const LRScheduler*>>();
  std::string wrong_groups_;  // what check() says of them
  at::Tensor lr_;
};

// torch.nn.utils.clip_grad_norm_ with the 2-norm, and its bits: multiplies each grad() by
// min(1, max_norm / (norm + 1e-6)), the norm being of all of them, and returns the norm. grad()
// becomes a tensor of its own: what it was over is left as it is.
// For loops with DistributedDataParallel; a Trainer and a Step have RunOptions::clip_grad_norm, as
// their gradients are whole only inside run().
double clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm);

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

class SGD : public Optimizer {
 public:
  SGD(std::vector<at::Tensor> parameters, SGDOptions options);
  explicit SGD(const std::vector<ParamGroup<SGDOptions>>& groups);
  void step() override;
  std::string settings() const override;
  Status check() const override;
  NamedTensors state() override;
  OptimizerStateDict state_dict() const override;
  Status load_state_dict(const OptimizerStateDict& given) override;

 private:
  void update(std::size_t index);
  NamedTensors state_of(std::size_t parameter) const;  // under PyTorch's names
  std::vector<SGDOptions> options_;                    // by group
  std::vector<at::Tensor> momentum_;  // by parameter; undefined in groups without momentum
  at::Tensor steps_;                  // int64, one per parameter: how often it was updated
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool decoupled_weight_decay = false;  // AdamW's
};

class Adam : public Optimizer {
 public:
  Adam(std::vector<at::Tensor> parameters, AdamOptions options);
  explicit Adam(const std::vector<ParamGroup<AdamOptions>>& groups);
  void step() override;
  std::string settings() const override;
  Status check() const override;
  NamedTensors state() override;
  OptimizerStateDict state_dict() const override;
  Status load_state_dict(const OptimizerStateDict& given) override;

 private:
  void update(std::size_t index);
  NamedTensors state_of(std::size_t parameter) const;              // under PyTorch's names
  std::vector<AdamOptions> options_;                               // by group
  std::vector<at::Tensor> exp_avg_, exp_avg_sq_, max_exp_avg_sq_;  // by parameter
  at::Tensor steps_;                                               // int64, one per parameter
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
};

// Adam with the decay of Loshchilov and Hutter (arXiv 1711.05101): of the weights, not of the
// gradient.
class AdamW : public Adam {
 public:
  AdamW(std::vector<at::Tensor> parameters, const AdamWOptions& options);
  explicit AdamW(const std::vector<ParamGroup<AdamWOptions>>& groups);
};

}  // namespace lockstep
