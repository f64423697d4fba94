#include "model.h"

#include <torch/nn/functional/loss.h>

#include "lockstep/checkpoint.h"

namespace F = torch::nn::functional;

namespace time_budget {
namespace {

constexpr std::int64_t kFeatures = 25088;
constexpr std::int64_t kOwnWidth = 4096;  // of torchvision's network, and so of its file
constexpr double kDropout = 0.7;

}  // namespace

lockstep::Result<std::shared_ptr<lockstep::models::Backbone>> make_model(const Options& options,
                                                                         std::int64_t classes) {
  const bool given = !options.weights.empty();
  auto model = lockstep::models::vgg19(
      {.classifier_width = given ? kOwnWidth : options.classifier_width, .init_weights = !given});
  if (given) LOCKSTEP_TRY(lockstep::load_state_dict(*model, options.weights));
  const std::int64_t width = options.classifier_width;
  model->replace_head(
      lockstep::models::dropout_head({kFeatures, width, width / 2, classes}, kDropout));
  return model;
}

lockstep::Score score_of(const at::Tensor& scores, const at::Tensor& targets) {
  const auto sum = F::CrossEntropyFuncOptions().reduction(torch::kSum);
  return {F::cross_entropy(scores, targets, sum).item<double>(),
          scores.argmax(1).eq(targets).sum().item<double>(), targets.size(0)};
}

}  // namespace time_budget
