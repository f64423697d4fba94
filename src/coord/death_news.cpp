#include "coord/death_news.h"

#include <algorithm>

#include "coord/hang_watch.h"

namespace lockstep::coord {
namespace {

std::string number(std::uint64_t value) { return std::to_string(value); }

std::string step_of(const WorkerProgress& seen) {
  return "epoch " + number(seen.epoch) + ", step " + number(seen.epoch_step);
}

// Without the part that differs between workers with one error.
std::string substance(const std::string& message) {
  const std::string place = "virtual worker ";
  const auto at = message.find(place);
  const auto rest =
      at == std::string::npos ? at : message.find_first_not_of("0123456789", at + place.size());
  return rest == std::string::npos ? message : message.substr(rest);
}

}  // namespace

std::string place_of(const WorkerProgress& seen) {
  if (seen.phase == Phase::kEvaluate)
    return " while evaluating batch " + number(seen.item) + " of epoch " + number(seen.epoch);
  if (!is_computing(seen.phase)) return "";
  const bool share = seen.phase != Phase::kOptimizer;
  return (share ? " while computing virtual worker " + number(seen.item) + " of " : " in ") +
         step_of(seen) + ", phase " + to_string(seen.phase);
}

std::string own_error(const IncidentBook::Entry* newest, const std::string& otherwise) {
  if (newest == nullptr) return otherwise;
  std::vector<std::string> errors;
  for (const Victim& victim : newest->report.victims)
    if (!victim.error.empty()) errors.push_back(substance(victim.error));
  if (errors.empty())
    for (const Victim& victim : newest->report.victims) errors.push_back(victim.cause);
  return *std::min_element(errors.begin(), errors.end());
}

std::string why_none_is_left(const IncidentBook::Entry* newest, const std::string& otherwise) {
  if (newest == nullptr) return otherwise;
  const std::vector<Victim>& victims = newest->report.victims;
  const auto all = [&](auto is) { return std::all_of(victims.begin(), victims.end(), is); };
  if (all([](const Victim& v) { return v.ended_well; }))
    return "the program left the run before its end; a loop of its own ends it early by "
           "Share::end_run()";
  if (all([&](const Victim& v) { return substance(v.error) == substance(victims[0].error); }) &&
      !victims[0].error.empty())
    return victims.size() == 1
               ? "the only worker ended by this error"
               : std::to_string(victims.size()) + " workers ended by this error in one step";
  return otherwise;
}

void DeathNews::tell_failure(const std::string& name, const WorkerView& worker,
                             const Error& error) {
  std::pair<std::string, Txn> failure{substance(error.message), worker.seen.current_txn};
  if (failure == last_failure_) return;
  last_failure_ = std::move(failure);
  turn_.print(action::Severity::kError, name + ": " + error.message);
}

void DeathNews::tell_refusal(const std::string& name, const WorkerView& worker,
                             const Error& error) {
  const std::pair<std::string, Txn> failure{error.message, Txn(0)};
  // Once for all, where rank 0 is; it leaves the telling of its own to us.
  if (std::exchange(last_failure_, failure) == failure && worker.seat != 0) return;
  turn_.print(action::Severity::kError, name + " cannot take part: " + error.message);
}

void DeathNews::tell_death(const std::string& name, const WorkerView& worker, const Death& death,
                           std::optional<Txn> interrupted, const std::string& then) {
  const bool own = death.cause == Cause::kOwnDoing && interrupted;
  const bool between = worker.seen.applied > worker.seen.current_txn.value();
  std::string fact = name;
  if (death.ended_well)
    fact += " left before the run's end (" + death.text + (between ? " after " : " in ") +
            step_of(worker.seen) + ")";
  else
    fact += " died (" + death.text + ")" + (own ? place_of(worker.seen) : "");
  if (!own) return turn_.print(action::Severity::kWarning, fact + "; " + then);
  const bool told = worker.failure.has_value() || !held_.empty();
  if (!told) turn_.print(action::Severity::kWarning, fact);
  held_.push_back((told ? fact : name) + ": " + then);
  // Between steps it is the next one that it is missing in.
  held_txn_ = std::max({held_txn_, *interrupted, Txn(worker.seen.applied)});
}

void DeathNews::tell_held(std::uint64_t applied, bool is_ending) {
  if (held_.empty() || (!is_ending && applied <= held_txn_.value())) return;
  for (const std::string& line : std::exchange(held_, {}))
    turn_.print(action::Severity::kWarning, line);
}

}  // namespace lockstep::coord
