// What is said of deaths: a program's own error goes wrong in all its workers, and is told once.
#include <algorithm>

#include "coord/membership_state.h"

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

void Coordinator::State::tell_failure(const Worker& worker, const Error& error) {
  std::pair<std::string, Txn> failure{substance(error.message), worker.seen.current_txn};
  if (failure == last_failure) return;
  last_failure = std::move(failure);
  print(action::Severity::kError, name(worker) + ": " + error.message);
}

void Coordinator::State::tell_death(const Worker& worker, const Death& death,
                                    std::optional<Txn> interrupted, const std::string& then) {
  const bool own = death.cause == Cause::kOwnDoing && interrupted;
  const bool between = worker.seen.applied > worker.seen.current_txn.value();
  std::string fact = name(worker);
  if (death.ended_well)
    fact += " left before the run's end (" + death.text + (between ? " after " : " in ") +
            step_of(worker.seen) + ")";
  else
    fact += " died (" + death.text + ")" + (own ? place_of(worker.seen) : "");
  if (!own) return print(action::Severity::kWarning, fact + "; " + then);
  const bool told = worker.failure.has_value() || !held.empty();
  if (!told) print(action::Severity::kWarning, fact);
  held.push_back((told ? fact : name(worker)) + ": " + then);
  // Between steps it is the next one that it is missing in.
  held_txn = std::max({held_txn, *interrupted, Txn(worker.seen.applied)});
}

// Once the transaction is committed, or there is none left, the deaths were the workers'.
void Coordinator::State::tell_held() {
  if (held.empty() || (!is_ending() && applied <= held_txn.value())) return;
  for (const std::string& line : std::exchange(held, {})) print(action::Severity::kWarning, line);
}

// What will be done about failures: once, before the first.
void Coordinator::State::tell_policy() {
  if (std::exchange(policy_told, true) || config.asked_for_help) return;
  if (config.attached)
    return print(action::Severity::kInfo,
                 number(config.workers) + " workers, started by hand; " +
                     (elastic ? "the others go on without one that dies, and the same command "
                                "joins them again"
                              : "when one dies, all are ended"));
  std::string first = "when one dies, all are stopped";
  if (elastic)
    first = "replacements of those that die: " + number(std::uint64_t(config.max_replacements)) +
            " (--max-replacements)";
  print(action::Severity::kInfo,
        policy(static_cast<int>(config.workers), first, config.max_restarts));
}

std::string Coordinator::State::those_left() const {
  std::string names;
  for (const auto& [uid, worker] : workers)
    if (!worker.is_ghost()) names += (names.empty() ? "" : ", ") + name(worker);
  return names;
}

void Coordinator::State::tell_stop_wait() {
  stop_wait_told_at.reset();
  const auto until = orderly_until ? orderly_until : term_until;
  const std::string left = those_left();
  if (until && *until > now && !left.empty())
    print(action::Severity::kInfo, waiting_for(left, *until - now));
}

// `members`: those that are to stay. Done: as many as are wanted are in a table, and whoever was to
// leave is gone.
void Coordinator::State::tell_scaled(std::uint32_t members) {
  const bool leaving = std::any_of(workers.begin(), workers.end(), [](const auto& entry) {
    return entry.second.stage == Stage::kLeaving;
  });
  if (!scaled_from || members != target || leaving) return;
  const std::uint32_t before = *std::exchange(scaled_from, std::nullopt);
  if (before == target) return;
  print(action::Severity::kInfo,
        std::string("the group has ") + (before < target ? "grown" : "shrunk") + " from " +
            std::to_string(before) + " to " + std::to_string(target) + " workers");
}

// What the newest deaths have in common with those of another try: the first of their errors, in
// an order that does not depend on who died first.
std::string Coordinator::State::own_error(const std::string& otherwise) {
  const IncidentBook::Entry* incident = incidents.newest();
  if (incident == nullptr) return otherwise;
  std::vector<std::string> errors;
  for (const Victim& victim : incident->report.victims)
    if (!victim.error.empty()) errors.push_back(substance(victim.error));
  if (errors.empty())
    for (const Victim& victim : incident->report.victims) errors.push_back(victim.cause);
  return *std::min_element(errors.begin(), errors.end());
}

std::string Coordinator::State::why_none_is_left(const std::string& otherwise) {
  const IncidentBook::Entry* incident = incidents.newest();
  if (incident == nullptr) return otherwise;
  const std::vector<Victim>& victims = incident->report.victims;
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

}  // namespace lockstep::coord
