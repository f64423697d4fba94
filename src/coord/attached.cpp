// Workers that were started by hand: they come by themselves, one of each rank, and nobody starts
// another in a dead one's place.
#include <algorithm>

#include "coord/membership_state.h"

namespace lockstep::coord {

bool Coordinator::State::anybody_has_come() const {
  return std::any_of(workers.begin(), workers.end(),
                     [](const auto& entry) { return entry.second.stage > Stage::kSpawning; });
}

// Others may be on their way, but not for as long.
void Coordinator::State::on(const event::StarterGone&) {
  timing.attach = std::min(timing.attach, turn.now - facts.since + timing.attach_orphaned);
}

// Nothing is lost with it, and its place waits: a wrong command of one shall not end the others.
void Coordinator::State::on_lost_at_start(const Worker& worker, ExitStatus status) {
  const std::string fact = name(worker) + " is gone before the first step (" +
                           (worker.evicted ? *worker.evicted : describe(status)) + ")";
  if (!anybody_has_come())
    return stop_now(exit_code(ErrorKind::kUnavailable), fact + ", and nobody else is there",
                    worker.refused);
  if (!worker.refused)
    print(action::Severity::kWarning, fact + "; the others wait for the same command again");
}

void Coordinator::State::refuse_at_start(Worker& worker, const Error& error) {
  worker.refused = true;
  news.tell_refusal(name(worker), worker, error);
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
