// How well a model does on samples. Evaluation reads each sample once, in order, unpadded, so its
// figures are exact: sums over samples, and their number.
//
//   trainer.evaluation([&](const lockstep::data::Batch& batch) {
//     return lockstep::cross_entropy_score(model->forward(batch.inputs), batch.targets);
//   });
//
// Threads: any.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <limits>

#include "lockstep/data.h"
#include "lockstep/status.h"

namespace torch::nn {
class Module;
}

namespace lockstep {

// Of one evaluation batch; summed over batches in order, in fp64.
struct Score {
  double loss_sum = 0;
  // Left alone where there is no such thing: then no accuracy is printed.
  double correct = std::numeric_limits<double>::quiet_NaN();
  std::int64_t count = 0;
  // Samples that the data set left out as damaged: counted by whoever calls the evaluation.
  std::int64_t left_out = 0;

  Score& operator+=(const Score& part);
};

using Evaluation = std::function<Score(const data::Batch&)>;

// Of a classifier: the sum of F::cross_entropy over the samples, and how many have their greatest
// score at their class (the first of equals). `scores`: (samples, classes), floating; `targets`:
// (samples), int64. libtorch's exceptions pass.
Score cross_entropy_score(const at::Tensor& scores, const at::Tensor& targets);

// The whole of `set`, `batch_size` samples a call, without gradients and with the model in
// evaluation mode; then each module is in its own mode again. Batches of which the data set leaves
// nothing are no call. Errors: the data set's; libtorch's exceptions pass.
Result<Score> evaluate(torch::nn::Module& model, const data::Dataset& set, std::int64_t batch_size,
                       const Evaluation& evaluation);

}  // namespace lockstep
