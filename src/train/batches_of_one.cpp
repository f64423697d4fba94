#include "train/batches_of_one.h"

#include <torch/nn/modules/batchnorm.h>

namespace lockstep::training {
namespace {

bool is_batch_norm(const torch::nn::Module& module) {
  return module.as<torch::nn::BatchNorm1d>() != nullptr ||
         module.as<torch::nn::BatchNorm2d>() != nullptr ||
         module.as<torch::nn::BatchNorm3d>() != nullptr;
}

// The first that normalizes by its batch, as "layer1.0.bn1"; nothing: there is none. Not by
// named_modules(), which a module on the stack does not have.
std::optional<std::string> batch_norm_in(const torch::nn::Module& module, const std::string& name) {
  if (module.is_training() && is_batch_norm(module)) return name;
  for (const auto& child : module.named_children())
    if (auto found = batch_norm_in(*child.value(), (name.empty() ? "" : name + ".") + child.key()))
      return found;
  return {};
}

std::int64_t last_batch(const RunSpec& spec) {
  return spec.data_plan.batch_at(spec.data_plan.steps_per_epoch() - 1);
}

std::string remedy(const RunSpec& spec) {
  return spec.options.batch_size == 1
             ? "take batches of two samples or more"
             : "--drop-last (RunOptions::drop_last) leaves it out, and so does another batch size";
}

}  // namespace

std::optional<std::string> warning_of_batches_of_one(const RunSpec& spec, const TrainState& state) {
  const bool reached = spec.plan.total_steps() >= spec.plan.steps_per_epoch;
  if (last_batch(spec) != 1 || !(reached || spec.options.batch_size == 1)) return {};
  std::optional<std::string> found;
  for (const torch::nn::Module* const module : state.modules())
    if (!found) found = batch_norm_in(*module, "");
  if (!found) return {};
  const std::string which =
      spec.options.batch_size == 1
          ? "each batch has one sample"
          : "the last batch of an epoch has one sample for each virtual worker (" +
                std::to_string(spec.data_plan.samples_per_worker()) + " in batches of " +
                std::to_string(spec.options.batch_size) + ")";
  return which + ", and " + (found->empty() ? "the model" : "'" + *found + "'") +
         " is a BatchNorm in training mode: where a channel has a single value then (a map of 1x1, "
         "or none), PyTorch ends the run with \"Expected more than 1 value per channel\"; " +
         remedy(spec);
}

Error with_remedy(Error error, const RunSpec& spec) {
  if (last_batch(spec) == 1 &&
      error.message.find("Expected more than 1 value per channel when training") !=
          std::string::npos)
    error.message += "; it is a batch of one sample: " + remedy(spec);
  return error;
}

}  // namespace lockstep::training
