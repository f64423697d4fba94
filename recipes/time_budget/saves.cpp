#include "saves.h"

#include <cmath>
#include <limits>

#include "lockstep/checkpoint.h"

namespace time_budget {
namespace {

using lockstep::EpochFigures;
using lockstep::Error;
using lockstep::ErrorKind;
using lockstep::PtFields;
using lockstep::Result;
using lockstep::StartPoint;
using Numbers = std::vector<double>;

// The losses have the broken epoch's, too, which is no epoch run, and has no time of one.
PtFields metrics_of(const lockstep::EpochEnd& end) {
  Numbers train, valid, times;
  double before = 0;
  for (const EpochFigures& epoch : end.history) {
    train.push_back(epoch.train_loss);
    valid.push_back(epoch.loss);
    times.push_back(epoch.run_seconds - before);
    before = epoch.run_seconds;
  }
  if (end.broken) times.pop_back();
  const double lowest = std::isnan(end.best) ? std::numeric_limits<double>::infinity() : end.best;
  return {{"EPOCHS_RUN", static_cast<std::int64_t>(times.size())},
          {"RUN_TIME", before},
          {"TRAIN_HISTORY", train},
          {"VALID_HISTORY", valid},
          {"EPOCH_TIMES", times},
          {"LOWEST_LOSS", lowest}};
}

template <class T>
Result<T> field(const PtFields& fields, const char* name, const std::string& path) {
  if (const T* found = lockstep::pt_field<T>(fields, name)) return *found;
  return Error{ErrorKind::kBadData, "'" + path + "' has no " + name +
                                        ": it is not of this program; give another --model-name"};
}

}  // namespace

Result<bool> write_saves(const Options& options, const lockstep::EpochEnd& end,
                         const torch::nn::Module& model) {
  const PtFields metrics = metrics_of(end);
  LOCKSTEP_TRY(lockstep::save_pt(options.metrics(), metrics));
  if (!end.is_best()) return false;
  PtFields snapshot{{"MODEL_STATE", &model}};
  snapshot.insert(snapshot.end(), metrics.begin(), metrics.end());
  LOCKSTEP_TRY(lockstep::save_pt(options.snapshot(), snapshot));
  return true;
}

Result<std::optional<StartPoint>> load_snapshot(const Options& options, torch::nn::Module& model) {
  const std::string path = options.snapshot();
  LOCKSTEP_ASSIGN(const auto fields, lockstep::load_pt_if_there(path));
  if (!fields) return std::optional<StartPoint>();
  LOCKSTEP_ASSIGN(const auto epochs, field<std::int64_t>(*fields, "EPOCHS_RUN", path));
  LOCKSTEP_ASSIGN(const auto lowest, field<double>(*fields, "LOWEST_LOSS", path));
  LOCKSTEP_ASSIGN(const auto train, field<Numbers>(*fields, "TRAIN_HISTORY", path));
  LOCKSTEP_ASSIGN(const auto valid, field<Numbers>(*fields, "VALID_HISTORY", path));
  LOCKSTEP_ASSIGN(const auto times, field<Numbers>(*fields, "EPOCH_TIMES", path));
  if (std::ssize(times) != epochs || train.size() < times.size() || valid.size() < times.size())
    return Error{ErrorKind::kBadData,
                 "'" + path + "' has EPOCHS_RUN " + std::to_string(epochs) + ", and " +
                     std::to_string(times.size()) + " EPOCH_TIMES, " +
                     std::to_string(train.size()) + " and " + std::to_string(valid.size()) +
                     " losses: they must be as many, or more losses; give another --model-name"};
  LOCKSTEP_TRY(lockstep::load_state_dict(model, path, "MODEL_STATE"));
  StartPoint start{epochs, lowest};
  double seconds = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    seconds += times[i];
    start.history.push_back({train[i], valid[i], seconds});
  }
  return std::optional(start);
}

}  // namespace time_budget
