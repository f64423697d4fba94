#include "best_model.h"

#include <filesystem>

#include "lockstep/checkpoint.h"

namespace classifier {

using lockstep::Error;
using lockstep::ErrorKind;
using lockstep::StartPoint;

lockstep::Status save_best(const std::string& path, const lockstep::EpochEnd& end,
                           const torch::nn::Module& model) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return Error{ErrorKind::kDisk, "cannot make the folder '" + folder.string() + "' for '" + path +
                                       "': " + error.message()};
  return lockstep::save_pt(path, {{"epoch", end.epoch},
                                  {"machine", std::int64_t{0}},
                                  {"model_state_dict", &model},
                                  {"accuracy", lockstep::PtScalar{end.accuracy}},
                                  {"loss", lockstep::PtScalar{end.loss}}});
}

lockstep::Result<std::optional<StartPoint>> load_best(const std::string& path,
                                                      torch::nn::Module& model) {
  if (!std::filesystem::exists(path)) return std::optional<StartPoint>();
  LOCKSTEP_ASSIGN(const lockstep::PtFields fields, lockstep::load_pt(path));
  const std::int64_t* epoch = nullptr;
  const double* accuracy = nullptr;
  for (const auto& [name, value] : fields) {
    if (name == "epoch") epoch = std::get_if<std::int64_t>(&value);
    if (name == "accuracy") accuracy = std::get_if<double>(&value);
  }
  if (epoch == nullptr || accuracy == nullptr)
    return Error{ErrorKind::kBadData,
                 "'" + path + "' has no " + (epoch == nullptr ? "epoch" : "accuracy") +
                     ": it is not of this program; give another --checkpoint-file"};
  LOCKSTEP_TRY(lockstep::load_state_dict(model, path, "model_state_dict"));
  return std::optional(StartPoint{*epoch + 1, *accuracy});
}

}  // namespace classifier
