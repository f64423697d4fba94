// All modules in evaluation mode while it lives; then each in its own again, so that a part that
// was frozen with eval() stays frozen.
#pragma once

#include <torch/nn/module.h>

#include <vector>

namespace lockstep::training {

class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& model) : model_(model) {
    model_.apply(
        [this](torch::nn::Module& module) { was_training_.push_back(module.is_training()); });
    model_.eval();
  }
  ~EvaluationMode() {
    auto was = was_training_.cbegin();
    model_.apply([&](torch::nn::Module& module) { module.train(*was++); });  // parents come first
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::nn::Module& model_;
  std::vector<bool> was_training_;
};

}  // namespace lockstep::training
