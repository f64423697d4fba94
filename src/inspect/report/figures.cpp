#include "inspect/report/figures.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "inspect/report/keys.h"
#include "inspect/text.h"
#include "lockstep/duration.h"

namespace lockstep::inspect {
namespace {

using Number = std::optional<double>;
using Text = std::optional<std::string>;

bool positive(const Number& number) { return number && *number > 0; }

// The time of one epoch on one worker, of the first that had one, and as many samples.
Number time_of_one(std::span<const Run> runs, const Number& samples) {
  for (const Run& run : runs)
    if (run.workers == Number(1) && positive(run.epoch_time_s) &&
        (!samples || !run.samples_per_epoch || samples == run.samples_per_epoch))
      return run.epoch_time_s;
  return std::nullopt;
}

Text as_count(const Number& number) {
  if (!number) return std::nullopt;
  return *number == std::floor(*number) && *number >= 0 && *number < 1e15
             ? grouped(static_cast<std::uint64_t>(*number))
             : number_text(*number);
}
Text with(const Number& number, int decimals) {
  return number ? Text(with_decimals(*number, decimals)) : std::nullopt;
}
Text as_percent(const Number& fraction) {
  return fraction ? Text(with_decimals(100 * *fraction, 2) + " %") : std::nullopt;
}
Text as_time(const Number& seconds) {
  if (!seconds) return std::nullopt;
  return *seconds >= 60 ? with_decimals(*seconds / 60, 2) + " min"
                        : with_decimals(*seconds, 2) + " s";
}

}  // namespace

std::vector<Derived> derive(std::span<const Run> runs) {
  std::vector<Derived> all;
  for (const Run& run : runs) {
    Derived derived;
    derived.steps_per_epoch = run.steps_per_epoch;
    if (!derived.steps_per_epoch && run.samples_per_epoch && positive(run.global_batch))
      derived.steps_per_epoch = std::ceil(*run.samples_per_epoch / *run.global_batch);
    if (run.budget_s && positive(run.epoch_time_s))
      derived.epochs_in_budget = std::ceil(*run.budget_s / *run.epoch_time_s);
    const Number one = time_of_one(runs, run.samples_per_epoch);
    if (one && positive(run.workers) && positive(run.epoch_time_s))
      derived.scaling_efficiency = *one / (*run.workers * *run.epoch_time_s);
    all.push_back(derived);
  }
  return all;
}

std::vector<Row> rows_of(std::span<const Run> runs) {
  const std::vector<Derived> derived = derive(runs);
  std::vector<Row> rows;
  const auto add = [&](const std::string& label, auto cell) {
    Row row{label, {}};
    for (std::size_t i = 0; i < runs.size(); ++i) row.cells.push_back(cell(runs[i], derived[i]));
    rows.push_back(std::move(row));
  };
  using R = const Run&;
  using D = const Derived&;
  add("Workers", [](R run, D) { return as_count(run.workers); });
  add("Learning rate",
      [](R run, D) { return run.learning_rate ? number_text(*run.learning_rate) : Text(); });
  add("Global batch size", [](R run, D) { return as_count(run.global_batch); });
  add("Steps per epoch", [](R, D more) { return as_count(more.steps_per_epoch); });
  add("Mean epoch time", [](R run, D) { return as_time(run.epoch_time_s); });
  add("Epochs in the budget", [](R, D more) { return as_count(more.epochs_in_budget); });
  add("Epochs run", [](R run, D) { return as_count(run.epochs_run); });
  add("Scaling efficiency", [](R, D more) { return with(more.scaling_efficiency, 2); });
  add("Best validation loss", [](R run, D) { return with(run.best_validation_loss, 4); });
  // The tutorial's table has none: only where there is one.
  if (std::ranges::any_of(runs, [](R run) { return run.best_validation_accuracy.has_value(); }))
    add("Best validation accuracy",
        [](R run, D) { return as_percent(run.best_validation_accuracy); });
  add("Test loss", [](R run, D) { return with(run.test_loss, 4); });
  add("Top-1 test accuracy", [](R run, D) { return as_percent(run.top1); });
  return rows;
}

Result<double> parse_duration(std::string_view text) {
  const auto duration = Duration::parse(text);
  if (duration.ok() && duration->unit == Duration::Unit::kTime && duration->seconds > 0)
    return duration->seconds;
  return Error{
      ErrorKind::kUsage,
      "'" + std::string(text) + "' is no time above 0; write it as 2h, 90min, 1h30min or 45s"};
}

// Two directories of one name are two runs, told apart by their paths.
void tell_apart(std::vector<Run>& runs) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string name = runs[i].name;
    const auto twin = [&](const Run& other) {
      return other.name == name && !other.directory.empty() && other.directory != runs[i].directory;
    };
    if (runs[i].directory.empty() || std::ranges::none_of(runs, twin)) continue;
    for (Run& run : runs)
      if (run.name == name && !run.directory.empty()) run.name = run.directory;
  }
}

std::vector<Run> merged(std::vector<Run> runs) {
  tell_apart(runs);
  std::vector<Run> all;
  for (Run& run : runs) {
    const auto first = std::ranges::find(all, run.name, &Run::name);
    if (first == all.end()) {
      all.push_back(std::move(run));
      continue;
    }
    for (const auto& [name, figure] : kFigureKeys)
      if (!((*first).*figure)) (*first).*figure = run.*figure;
    for (const auto& [name, curve] : kCurveKeys)
      if (((*first).*curve).empty()) (*first).*curve = std::move(run.*curve);
    first->sums.merge(run.sums);
  }
  return all;
}

}  // namespace lockstep::inspect
