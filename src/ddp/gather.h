// The outputs of DataParallel's replicas as one tensor with a gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace lockstep::ddp {

// body(0) to body(count - 1), each in a thread of its own that has this one's gradient mode,
// autocast and number of kernel threads. Throws what the first of them threw, once all are done.
void in_threads(std::size_t count, const std::function<void(std::size_t)>& body);

// Along the fixed tree over the leaves; a leaf may be undefined, which is nothing at all.
at::Tensor tree_sum(std::vector<at::Tensor> leaves);

// One replica's forward: its output, [b, ...], and what its gradient is wanted of.
struct Part {
  at::Tensor output;
  std::vector<at::Tensor> parameters;  // in the order of the module's
  std::vector<at::Tensor> inputs;
};

// [b0 + b1 + ..., ...]. Its backward computes each part's gradients in a thread of its own; those
// of `parameters` are their sums, those of `inputs` what the parts' gradients are side by side.
at::Tensor gather(std::vector<Part> parts, const std::vector<at::Tensor>& parameters,
                  const std::vector<at::Tensor>& inputs);

}  // namespace lockstep::ddp
