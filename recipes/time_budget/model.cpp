#include "model.h"

#include "lockstep/checkpoint.h"

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

}  // namespace time_budget
