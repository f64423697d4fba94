// A run directory's manifest and metrics as a Run.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>

#include "base/log.h"
#include "base/text.h"
#include "inspect/report/run.h"
#include "rundir/lines.h"
#include "rundir/manifest.h"

namespace lockstep::inspect {
namespace {

using Parsed = nlohmann::json;
using rundir::RunManifest;

constexpr std::size_t kMostPoints = 120;  // of a curve: with more, noise hides the others

std::optional<double> setting_of(const RunManifest& manifest, const std::string& key) {
  return number_of<double>(manifest.value(key));
}

std::optional<double> number_in(const Parsed& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

Result<RunManifest> manifest_of(Env& env, const std::string& path) {
  auto manifest = rundir::read_manifest(env, path);
  if (!manifest.ok() && manifest.error().kind == ErrorKind::kUsage)  // somebody else's
    return Error{ErrorKind::kBadData, manifest.error().message};
  if (!manifest.ok()) return manifest.error();
  if (*manifest) return **std::move(manifest);
  return Error{ErrorKind::kBadData, "'" + path + "' holds no run (no manifest.json)"};
}

// "SGD lr=0.01 momentum=0": one group's alone, since two have no common rate.
std::optional<double> learning_rate_of(const RunManifest& manifest) {
  const std::string settings = manifest.value("optimizer_0");
  const std::size_t at = settings.find(" lr=");
  if (at == std::string::npos || !manifest.value("optimizer_1").empty()) return std::nullopt;
  const std::string_view rest = std::string_view(settings).substr(at + 4);
  return number_of<double>(rest.substr(0, rest.find(' ')));
}

constexpr double kNearlyAll = 0.9;  // of a run's time: its number of workers

// times.jsonl (rundir/times.h): run time at which all transactions up to one were recorded.
class Times {
 public:
  void add(const Parsed& line) {
    const auto txn = number_in(line, "txn"), run_s = number_in(line, "run_s");
    if (!txn || !run_s) return;
    const double before_s = marks_.empty() ? 0 : marks_.back().run_s;
    marks_.push_back({*txn, *run_s});
    const double workers = number_in(line, "workers").value_or(0);  // 0: not known
    if (workers > 0) seconds_with_[workers] += std::max(*run_s - before_s, 0.0);
  }
  // Those of nearly all of its time: a worker that was killed and replaced is away for a moment.
  std::optional<double> workers() const {
    double all_s = 0;
    for (const auto& [_, seconds] : seconds_with_) all_s += seconds;
    for (const auto& [workers, seconds] : seconds_with_)
      if (seconds >= kNearlyAll * all_s) return workers;
    return std::nullopt;
  }

  // Between two lines, in proportion. None beyond the last.
  std::optional<double> minutes_at(double txn) const {
    const auto next = std::ranges::lower_bound(marks_, txn, {}, &Mark::txn);
    if (next == marks_.end()) return std::nullopt;
    const Mark before = next == marks_.begin() ? Mark{-1, 0} : *std::prev(next);
    const double share = (txn - before.txn) / (next->txn - before.txn);
    return (before.run_s + share * (next->run_s - before.run_s)) / 60;
  }

 private:
  struct Mark {
    double txn = 0, run_s = 0;
  };
  std::vector<Mark> marks_;                // ascending
  std::map<double, double> seconds_with_;  // so many workers
};

// Losses of steps by epoch, and evaluations, as the lines have them.
class Metrics {
 public:
  explicit Metrics(double updates_per_step) : updates_per_step_(updates_per_step) {}

  void add(const Parsed& line) {
    auto epoch = number_in(line, "epoch");
    if (!epoch && number_in(line, "step")) epoch = 0;  // of a run without data
    const auto txn = number_in(line, "txn");
    if (!epoch || !txn) return;
    epoch_ends_[*epoch] = *txn;
    if (line.contains("loss_mean")) return add_update(line, *epoch, *txn);
    evaluated(line, *epoch, *txn, "valid", validation_);
    evaluated(line, *epoch, *txn, "test", test_);
  }

  Run take(const Times& times) {
    times_ = &times;
    count_epochs();
    fill_train();
    fill_evaluated(validation_, run_.validation);
    fill_evaluated(test_, run_.test);
    time_epochs();
    run_.workers = times.workers();
    return std::move(run_);
  }

 private:
  struct Sum {
    double sum = 0, count = 0;
  };
  using Sums = std::map<std::string, Sum>;
  struct Step {
    double txn = 0, loss = 0;
    Sums sums = {};
  };

  // "sums":{"reward":[SUM,COUNT]}, null for what is not finite.
  static void add_sums(const Parsed& line, Sums& sums) {
    const auto found = line.find("sums");
    if (found == line.end() || !found->is_object()) return;
    for (const auto& [name, sum] : found->items()) {
      if (!sum.is_array() || sum.size() != 2 || !sum[1].is_number()) continue;
      sums[name].sum += sum[0].is_number() ? sum[0].get<double>() : std::nan("");
      sums[name].count += sum[1].get<double>();
    }
  }

  // A step is there with its last update; its loss is the first one's.
  void add_update(const Parsed& line, double epoch, double txn) {
    const double update = number_in(line, "update").value_or(0);
    if (update == 0) {
      loss_ = number_in(line, "loss_mean").value_or(std::nan(""));  // null
      sums_ = {};
    }
    add_sums(line, sums_);
    if (update + 1 == updates_per_step_) steps_[epoch].push_back({txn, loss_, sums_});
  }

  struct Evaluation {
    double epoch = 0, txn = 0, loss = 0;
    std::optional<double> steps;  // of the epoch, before it; none: at its end
  };

  void evaluated(const Parsed& line, double epoch, double txn, const std::string& set,
                 std::vector<Evaluation>& evaluations) {
    if (!line.contains(set + "_samples") && !line.contains(set + "_loss")) return;
    const auto steps = number_in(line, "epoch_step");
    if (!steps && !line.contains("broken")) ended_ = std::max(ended_, epoch);
    const auto loss = number_in(line, (set + "_loss").c_str());
    if (loss) evaluations.push_back({epoch, txn, *loss, steps});
    if (set == "valid") {
      if (loss)
        run_.best_validation_loss = std::min(run_.best_validation_loss.value_or(*loss), *loss);
      if (const auto accuracy = number_in(line, "valid_accuracy"))
        run_.best_validation_accuracy =
            std::max(run_.best_validation_accuracy.value_or(*accuracy), *accuracy);
      return;
    }
    run_.test_loss = loss;
    run_.top1 = number_in(line, "test_accuracy");
  }

  void count_epochs() {
    for (const auto& [epoch, steps] : steps_) {
      const auto count = static_cast<double>(steps.size());
      const bool finished = epoch < steps_.rbegin()->first || epoch <= ended_ ||
                            run_.steps_per_epoch == std::optional(count);
      if (!finished) continue;
      finished_.insert(epoch);
      run_.epochs_run = run_.epochs_run.value_or(0) + 1;
      run_.steps_per_epoch = count;  // the newest: the first may be of another V, or not all there
    }
  }

  // Over as many finished epochs as have a time: the last ones' line may be missing. A run that
  // began behind an epoch of another's counts from its first epoch's end: its time may go on from
  // the other's.
  void time_epochs() {
    if (steps_.empty()) return;
    const double first = steps_.begin()->first;
    const auto origin = first > 0 ? end_minutes(first) : std::optional(0.0);
    const double own = first > 0 ? 1 : 0;  // epochs that the origin lies behind
    for (double epochs = run_.epochs_run.value_or(0); epochs > own && origin; --epochs)
      if (const auto minutes = end_minutes(first + epochs - 1)) {
        run_.epoch_time_s = (*minutes - *origin) * 60 / (epochs - own);
        return;
      }
  }

  std::optional<double> end_minutes(double epoch) const {
    const auto end = epoch_ends_.find(epoch);
    return end == epoch_ends_.end() ? std::nullopt : minutes_at(end->second);
  }

  // How many a whole one has, as far as is known: a finished one its own, since V may have changed.
  double steps_of(double epoch) {
    const auto own = static_cast<double>(steps_[epoch].size());
    return finished_.contains(epoch) ? own : std::max(run_.steps_per_epoch.value_or(0), own);
  }

  // An epoch's end is at its last transaction: its files count, too.
  void fill_evaluated(const std::vector<Evaluation>& evaluations, std::vector<Point>& points) {
    for (const auto& [epoch, txn, loss, steps] : evaluations)
      points.push_back({epoch + (steps ? *steps / steps_of(epoch) : 1),
                        minutes_at(steps ? txn : epoch_ends_[epoch]), loss});
  }

  void fill_sums(std::span<const Step> steps, double epochs, std::optional<double> minutes) {
    Sums sums;
    for (const Step& step : steps)
      for (const auto& [name, more] : step.sums) {
        sums[name].sum += more.sum;
        sums[name].count += more.count;
      }
    for (const auto& [name, sum] : sums)
      if (std::isfinite(sum.sum / sum.count))
        run_.sums[name].push_back({epochs, minutes, sum.sum / sum.count});
  }

  // Neighbouring steps become one point, their mean.
  void fill_train() {
    std::size_t all = 0;
    for (const auto& [epoch, steps] : steps_) all += steps.size();
    const std::size_t width = (all + kMostPoints - 1) / kMostPoints;
    for (const auto& [epoch, steps] : steps_) {
      const double count = steps_of(epoch);
      for (std::size_t at = 0; at < steps.size(); at += width) {
        const std::size_t end = std::min(at + width, steps.size());
        double sum = 0;
        for (std::size_t i = at; i < end; ++i) sum += steps[i].loss;
        const double epochs = epoch + static_cast<double>(end) / count;
        const auto minutes = minutes_at(steps[end - 1].txn);
        const double mean = sum / static_cast<double>(end - at);
        if (std::isfinite(mean)) run_.train.push_back({epochs, minutes, mean});
        fill_sums(std::span(steps).subspan(at, end - at), epochs, minutes);
      }
    }
  }

  std::optional<double> minutes_at(double txn) const { return times_->minutes_at(txn); }

  const double updates_per_step_;
  double loss_ = 0;  // of the step under way
  Sums sums_;        // of its updates
  Run run_;
  const Times* times_ = nullptr;
  std::map<double, std::vector<Step>> steps_;  // by epoch
  std::map<double, double> epoch_ends_;        // the last transaction of each epoch
  std::vector<Evaluation> validation_, test_;
  double ended_ = -1;  // the last epoch whose end was evaluated
  std::set<double> finished_;
};

}  // namespace

Result<Run> read_run_directory(Env& env, const std::string& path) {
  LOCKSTEP_ASSIGN(const RunManifest manifest, manifest_of(env, path));
  Metrics metrics(setting_of(manifest, "updates_per_step").value_or(1));
  Times times;
  std::optional<double> redone;  // the first step that came out otherwise
  LOCKSTEP_TRY(rundir::read_lines(env, path + "/metrics.jsonl", [&](const Parsed& line) {
    metrics.add(line);
    const auto before = line.find("before");
    if (!redone && before != line.end() && before->is_object()) redone = number_in(line, "step");
  }));
  if (redone)
    log_warning("'" + path + "': step " + shortest(*redone) +
                " came out otherwise as it was done again, after all workers had ended; figures "
                "from there on are not those of a run that was never ended");
  // Never synced, so a crash of the machine may have damaged it: then there are no times.
  if (env.exists(path + "/times.jsonl") &&
      !rundir::read_lines(env, path + "/times.jsonl", [&](const Parsed& line) {
         times.add(line);
       }).ok())
    times = Times();
  Run run = metrics.take(times);
  run.path = path;
  run.learning_rate = learning_rate_of(manifest);
  const auto all = setting_of(manifest, "global_batch_size"),
             each = setting_of(manifest, "batch_size"), v = setting_of(manifest, "virtual_workers");
  const double batches = setting_of(manifest, "accumulation_steps").value_or(1);
  if (all || (each && v)) run.global_batch = (all ? *all : *each * *v) * batches;
  return run;
}

}  // namespace lockstep::inspect
