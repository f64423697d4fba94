// Blocks of docs/guide/own_optimizers.md, to see that they compile (guide_samples.cpp).
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/modules/container/sequential.h>

#include <limits>
#include <string>
#include <vector>

#include "lockstep/lockstep.h"

namespace guide {

class Lion : public lockstep::Optimizer {
 public:
  Lion(const std::vector<at::Tensor>& parameters, double lr) : Optimizer({parameters}, {lr}) {
    for (const at::Tensor& p : parameters_) momentum_.push_back(at::zeros_like(p));
  }
  void step() override {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor p = parameters_[i], gradient = p.grad();
      if (!gradient.defined()) continue;  // it is frozen
      p.sub_(at::sign(momentum_[i] * 0.9 + gradient * 0.1), lr());
      momentum_[i].lerp_(gradient, 0.01);  // in place
    }
  }
  lockstep::NamedTensors state() override {
    lockstep::NamedTensors all = Optimizer::state();  // "lr"
    for (std::size_t i = 0; i < momentum_.size(); ++i)
      all.emplace_back(std::to_string(i) + ".momentum", momentum_[i]);
    return all;
  }
  std::string settings() const override { return "Lion " + Optimizer::settings(); }

 private:
  std::vector<at::Tensor> momentum_;
};

lockstep::Status train_by_lion(lockstep::TrainState& state, torch::nn::Module& net) {
  Lion optimizer(net.parameters(), 1e-4);
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  return {};
}

// Of the last point that was accepted: where it is, its gradient and loss; and how far the next
// trial goes.
class Search : public lockstep::Optimizer {
 public:
  explicit Search(const std::vector<at::Tensor>& parameters) : Optimizer({parameters}, {1.0}) {
    for (const at::Tensor& p : parameters_) {
      points_.push_back(p.detach().clone());
      gradients_.push_back(at::zeros_like(p));
    }
  }
  void step() override {}  // it would not know the loss
  void begin() { loss_.fill_(std::numeric_limits<double>::infinity()); }
  void move(double loss) {
    double slope = 0;
    for (const at::Tensor& g : gradients_) slope += g.square().sum().item<double>();
    const double length = length_.item<double>();
    const bool accepted = loss <= loss_.item<double>() - 1e-4 * length * slope;
    length_.fill_(accepted ? 2 * length : length / 2);
    if (accepted) loss_.fill_(loss);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor p = parameters_[i];
      if (accepted) points_[i].copy_(p);
      if (accepted) gradients_[i].copy_(p.grad());
      p.copy_(points_[i] - gradients_[i] * length_);  // the next trial; L-BFGS has its direction
    }
  }
  void go_back() {
    for (std::size_t i = 0; i < points_.size(); ++i) at::Tensor(parameters_[i]).copy_(points_[i]);
  }
  lockstep::NamedTensors state() override {
    lockstep::NamedTensors all = Optimizer::state();
    for (std::size_t i = 0; i < points_.size(); ++i) {
      all.emplace_back(std::to_string(i) + ".point", points_[i]);
      all.emplace_back(std::to_string(i) + ".gradient", gradients_[i]);
    }
    all.emplace_back("loss", loss_);
    all.emplace_back("length", length_);
    return all;
  }

 private:
  std::vector<at::Tensor> points_, gradients_;
  at::Tensor loss_ = at::full({}, std::numeric_limits<double>::infinity(), at::kDouble);
  at::Tensor length_ = at::ones({}, at::kDouble);
};

void move_behind_each_update(lockstep::Step& step, Search& search) {
  step.on_update([&](const lockstep::UpdateEnd& end) { search.move(end.result.loss_mean); });
}

void move_in_a_batch(lockstep::Step& step, Search& search) {
  step.on_update([&](const lockstep::UpdateEnd& end) {
    if (end.update == 0) search.begin();  // losses of other batches are no measure
    search.move(end.result.loss_mean);
    if (end.update == 7) search.go_back();  // from a trial to what was accepted
  });
}

lockstep::Status search_in_a_batch(lockstep::Step& step, Search& search,
                                   const lockstep::Step::Closure& loss) {
  LOCKSTEP_TRY(step.run(std::vector<lockstep::Step::Update>(8, {search, loss})));
  return {};
}

void whole_set(lockstep::RunOptions& options, const lockstep::data::Dataset& set) {
  options.global_batch_size = set.size();
  options.shuffle = lockstep::data::Shuffle::kSequential;
  options.epochs = 500;
}

lockstep::Status parts_of_a_whole(lockstep::Step& step, lockstep::Optimizer& optimizer,
                                  torch::nn::Sequential network, const at::Tensor& inputs,
                                  const at::Tensor& targets, int V) {
  LOCKSTEP_TRY(step.run(optimizer, [&](lockstep::Share& share) {
    const at::Tensor errors = (network->forward(inputs) - targets).square();  // of all samples
    return errors.tensor_split(V)[share.virtual_worker()].sum() * V / errors.numel();
  }));
  return {};
}

}  // namespace guide
