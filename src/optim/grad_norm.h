// The norm that clip_grad_norm_() goes by, and get_total_norm() in PyTorch.
// Threads: one.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::optim {

// torch/nn/utils/clip_grad.py, as it runs for tensors on the CPU: the 2-norm of the gradients' own
// 2-norms, a scalar. Gradients of one dtype come together, in the order in which each dtype is met
// first. Undefined: no parameter has a gradient.
at::Tensor total_norm(const std::vector<at::Tensor>& parameters);

}  // namespace lockstep::optim
