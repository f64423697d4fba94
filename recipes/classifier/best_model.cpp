#include "best_model.h"

#include "lockstep/checkpoint.h"

namespace classifier {

using lockstep::Error;
using lockstep::ErrorKind;
using lockstep::StartPoint;

lockstep::Status save_best(const std::string& path, const lockstep::EpochEnd& end,
                           const torch::nn::Module& model) {
  return lockstep::save_pt(path, {{"epoch", end.epoch},
                                  {"machine", std::int64_t{0}},
                                  {"model_state_dict", &model},
                                  {"accuracy", lockstep::PtScalar{end.accuracy}},
                                  {"loss", lockstep::PtScalar{end.loss}}});
}

lockstep::Result<std::optional<StartPoint>> load_best(const std::string& path,
                                                      torch::nn::Module& model) {
  LOCKSTEP_ASSIGN(const auto fields, lockstep::load_pt_if_there(path));
  if (!fields) return std::optional<StartPoint>();
  const auto* epoch = lockstep::pt_field<std::int64_t>(*fields, "epoch");
  const auto* accuracy = lockstep::pt_field<double>(*fields, "accuracy");
  if (epoch == nullptr || accuracy == nullptr)
    return Error{ErrorKind::kBadData,
                 "'" + path + "' has no " + (epoch == nullptr ? "epoch" : "accuracy") +
                     ": it is not of this program; give another --checkpoint-file"};
  LOCKSTEP_TRY(lockstep::load_state_dict(model, path, "model_state_dict"));
  return std::optional(StartPoint::behind(*epoch, *accuracy));
}

}  // namespace classifier
