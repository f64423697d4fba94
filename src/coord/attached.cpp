// Workers that were started by hand: they come by themselves, one of each rank, and nobody starts
// another in a dead one's place.
#include "coord/membership_state.h"

namespace lockstep::coord {

bool Coordinator::State::anybody_has_come() const {
  return std::any_of(workers.begin(), workers.end(),
                     [](const auto& entry) { return entry.second.stage > Stage::kSpawning; });
}

// Before the first step; later it is check_survivors() that sees it.
void Coordinator::State::end_if_all_have_gone() {
  if (group != Group::kStarting || !lost_at_start || anybody_has_come()) return;
  stop_now(exit_code(ErrorKind::kUnavailable), "the last worker is gone before the first step");
}

// Nothing is lost with it, and its place waits: a wrong command of one shall not end the others.
void Coordinator::State::on_lost_at_start(const Worker& worker, ExitStatus status) {
  lost_at_start = true;
  if (worker.refused) return;
  const std::string why = worker.evicted ? *worker.evicted : describe(status);
  print(action::Severity::kWarning, name(worker) + " is gone before the first step (" + why +
                                        "); the others wait for the same command again");
}

void Coordinator::State::refuse_at_start(Worker& worker, const Error& error) {
  worker.refused = true;
  print(action::Severity::kError, name(worker) + " cannot take part: " + error.message);
}

std::string Coordinator::State::missing_ranks() const {
  if (!config.attached) return "";
  std::string ranks;
  for (const auto& [uid, worker] : workers)
    if (worker.stage == Stage::kSpawning)
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(worker.seat);
  if (ranks.empty()) return "";
  return ": of " + std::to_string(config.workers) + " nobody has come as rank " + ranks +
         ". Start each rank with the same address and number of ranks";
}

std::string Coordinator::State::what_goes_on(bool rejoins) const {
  return rejoins ? "the others go on, and the same command joins them again"
                 : "the others go on without it";
}

}  // namespace lockstep::coord
