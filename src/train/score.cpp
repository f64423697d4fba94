#include "lockstep/score.h"

#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <algorithm>

#include "train/evaluation_mode.h"
#include "train/given_ids.h"
#include "train/scored_batch.h"
#include "train/unsigned_nan.h"

namespace lockstep {

Score& Score::operator+=(const Score& part) {
  loss_sum += part.loss_sum;
  correct += part.correct;
  count += part.count;
  left_out += part.left_out;
  return *this;
}

Score cross_entropy_score(const at::Tensor& scores, const at::Tensor& targets) {
  return {at::cross_entropy_loss(scores, targets, {}, at::Reduction::Sum).item<double>(),
          scores.argmax(1).eq(targets).sum().item<double>(), targets.size(0)};
}

Result<Score> training::scored_batch(const data::Dataset& set, std::int64_t batch_size,
                                     std::int64_t index, const Evaluation& evaluation) {
  LOCKSTEP_ASSIGN(const data::Batch batch, data::evaluation_batch(set, batch_size, index));
  const std::int64_t asked = std::min(batch_size, set.size() - index * batch_size);
  Score score{0, 0, 0};
  LOCKSTEP_ASSIGN(const std::int64_t left_out, missing_samples(batch, asked));
  if (left_out < asked) score = evaluation(batch);
  score.left_out = left_out;
  return score;
}

Result<Score> evaluate(torch::nn::Module& model, const data::Dataset& set, std::int64_t batch_size,
                       const Evaluation& evaluation) {
  const at::NoGradGuard no_grad;
  const training::EvaluationMode mode(model);
  Score all{0, 0, 0};
  for (std::int64_t i = 0; i < data::evaluation_batches(set.size(), batch_size); ++i) {
    LOCKSTEP_ASSIGN(const Score part, training::scored_batch(set, batch_size, i, evaluation));
    all += part;
  }
  all.loss_sum = training::unsigned_nan(all.loss_sum);
  return all;
}

}  // namespace lockstep
