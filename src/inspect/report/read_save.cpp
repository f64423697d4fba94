// What the time-budget tutorial's trainer saves, as a Run.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "checkpoint/pt/reader.h"
#include "inspect/report/run.h"

namespace lockstep::inspect {
namespace {

using pickle::Value;
using Numbers = std::vector<double>;

std::optional<double> number_of(const Value& value) {
  if (const double* const number = value.number()) return *number;
  if (const std::int64_t* const integer = value.integer()) return static_cast<double>(*integer);
  return std::nullopt;
}

class Save {
 public:
  Save(const Value& root, const std::string& path) : root_(root), path_(path) {}

  Result<double> number(const char* key) const {
    LOCKSTEP_ASSIGN(const Value* value, find(key));
    if (const auto number = number_of(*value)) return *number;
    return bad(key, "is " + value->type() + ", not a number");
  }
  Result<Numbers> numbers(const char* key) const {
    LOCKSTEP_ASSIGN(const Value* value, find(key));
    if (value->sequence() == nullptr) return bad(key, "is " + value->type() + ", not a list");
    Numbers numbers;
    for (const Value& item : value->sequence()->items) {
      const auto number = number_of(item);
      if (!number) return bad(key, "holds " + item.type() + ", not numbers alone");
      numbers.push_back(*number);
    }
    return numbers;
  }
  Error bad(const std::string& key, const std::string& what) const {
    return {ErrorKind::kBadData, "'" + path_ + "': " + key + " " + what};
  }

 private:
  Result<const Value*> find(const char* key) const {
    if (const Value* const value = root_.find(key)) return value;
    return Error{ErrorKind::kBadData,
                 "'" + path_ + "' has no " + key +
                     ": it is no save of the tutorial's trainer (NAME.pt or NAME_metrics.pt)"};
  }
  const Value& root_;
  const std::string& path_;
};

// Losses may have one more than there are times: of the epoch that the time limit broke, at the end
// of the run's time.
void add_points(const Numbers& losses, const Numbers& times, double run_time,
                std::vector<Point>& points) {
  double seconds = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    seconds = i < times.size() ? seconds + times[i] : std::max(seconds, run_time);
    if (std::isfinite(losses[i]))
      points.push_back({static_cast<double>(i + 1), seconds / 60, losses[i]});
  }
}

}  // namespace

Result<Run> read_training_save(Env& env, const std::string& path) {
  LOCKSTEP_ASSIGN(const Value root, checkpoint::pt::read(env, path));
  const Save save(root, path);
  LOCKSTEP_ASSIGN(const Numbers train, save.numbers("TRAIN_HISTORY"));
  LOCKSTEP_ASSIGN(const Numbers validation, save.numbers("VALID_HISTORY"));
  LOCKSTEP_ASSIGN(const Numbers times, save.numbers("EPOCH_TIMES"));
  LOCKSTEP_ASSIGN(const double lowest, save.number("LOWEST_LOSS"));
  LOCKSTEP_ASSIGN(const double epochs, save.number("EPOCHS_RUN"));
  LOCKSTEP_ASSIGN(const double run_time, save.number("RUN_TIME"));
  const bool broken = train.size() == times.size() + 1;
  if ((train.size() != times.size() && !broken) || validation.size() != train.size())
    return save.bad("TRAIN_HISTORY", "has " + std::to_string(train.size()) +
                                         " values, VALID_HISTORY " +
                                         std::to_string(validation.size()) + ", EPOCH_TIMES " +
                                         std::to_string(times.size()) +
                                         "; one each per epoch, and at most one more loss");
  Run run;
  run.path = path;
  run.epochs_run = epochs;
  if (std::isfinite(lowest)) run.best_validation_loss = lowest;
  double seconds = 0;
  for (const double time : times) seconds += time;
  if (!times.empty()) run.epoch_time_s = seconds / static_cast<double>(times.size());
  add_points(train, times, run_time, run.train);
  add_points(validation, times, run_time, run.validation);
  return run;
}

}  // namespace lockstep::inspect
