// Optimizers with the bits of Python's torch.optim (single-tensor form, torch 2.11). The C++
// frontend's Adam rounds differently (mul_ + add_ in place of lerp_), hence these. Names, meanings
// and defaults are PyTorch's.
//
// Shapes: any dense parameters on the CPU; state has each parameter's shape and dtype. A parameter
// that is given twice (a submodule under two names; Python's parameters() leaves out the second)
// counts once. Ownership: parameters are shared with the model.
// Threads: one at a time. Errors: settings out of range are told by check(), which a run calls
// before it begins; a parameter without gradient is skipped, as in PyTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/status.h"

namespace lockstep {

class Optimizer {
 public:
  Optimizer(std::vector<at::Tensor> parameters, double lr);
  virtual ~Optimizer() = default;

  // One update from the parameters' grad(). Inside a Lockstep step it is called by the library, at
  // the commit.
  virtual void step() = 0;
  void zero_grad();  // grad() becomes undefined (set_to_none=True, PyTorch's default)

  // Part of the state, so that a newcomer's first update has the rate that a schedule has set in
  // the others.
  double lr() const;
  void set_lr(double lr);

  // Everything that the next step() depends on besides parameters and gradients, as tensors of
  // fixed shape that keep their address: what checkpoints and newcomers copy. Names are unique. The
  // base class has "lr" (float64).
  virtual std::vector<std::pair<std::string, at::Tensor>> state();
  // Its kind and what it was made with, for the run's manifest: a run goes on only under equal
  // settings. The rate is the one it has now.
  virtual std::string settings() const;
  // kUsage, in PyTorch's words, for settings that torch.optim refuses (and for those not finite).
  virtual Status check() const;
  const std::vector<at::Tensor>& parameters() const { return parameters_; }

 protected:
  std::vector<at::Tensor> parameters_;

 private:
  at::Tensor lr_;
};

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
  void step() override;
  std::string settings() const override;
  Status check() const override;
  std::vector<std::pair<std::string, at::Tensor>> state() override;

 private:
  SGDOptions options_;
  std::vector<at::Tensor> momentum_;  // empty without momentum
  at::Tensor steps_;                  // int64, one per parameter: how often it was updated
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
};

class Adam : public Optimizer {
 public:
  Adam(std::vector<at::Tensor> parameters, AdamOptions options);
  void step() override;
  std::string settings() const override;
  Status check() const override;
  std::vector<std::pair<std::string, at::Tensor>> state() override;

 private:
  void update(std::size_t index);
  AdamOptions options_;
  std::vector<at::Tensor> exp_avg_, exp_avg_sq_, max_exp_avg_sq_;
  at::Tensor steps_;  // int64, one per parameter
};

}  // namespace lockstep
