// What is told of a simulated run.
#include "simulation/sim_agent.h"

namespace lockstep::simulation {

void SimAgent::sum_up(Outcome& outcome) const {
  outcome.restarts = static_cast<std::uint64_t>(restarts_);
  outcome.scales = static_cast<std::uint64_t>(replies_ok_);
  outcome.incidents = incidents_.size();
  outcome.crowded = crowded_;
  outcome.hung_evicted = hung_evicted_;
  outcome.slow_evicted = slow_evicted_;
  outcome.held_back = held_back_;
  for (const auto& [number, incident] : incidents_) {
    outcome.deaths += incident.victims.size();
    outcome.rejoins += incident.phases.rejoined != 0 ? 1 : 0;
  }
}

std::string SimAgent::picture() const {
  std::string text;
  for (const auto& table : board_->tables) {
    if (!table) continue;
    text += "table " + std::to_string(table->txn.value()) + ":";
    for (const coord::Member& member : table->members)
      text += " " + std::to_string(member.uid.value());
    text += "\n";
  }
  text += "copy of " + std::to_string(board_->heal_mark) + ", request " +
          std::to_string(board_->heal_request) + " to " +
          std::to_string(board_->heal_donor.value()) + "; dead:";
  for (const WorkerUid uid : board_->dead) text += " " + std::to_string(uid.value());
  text += "\n";
  for (const SimWorker* worker : alive()) text += worker->picture() + "\n";
  return text;
}

std::string SimAgent::report() const {
  std::string text;
  for (std::size_t i = journal.size() > 60 ? journal.size() - 60 : 0; i < journal.size(); ++i)
    text += journal[i] + "\n";
  return text + picture();
}

std::size_t SimAgent::failed_starts() const {
  std::size_t count = 0;
  for (const auto& [number, incident] : incidents_)
    for (const coord::Victim& victim : incident.victims)
      count += ready_.contains(victim.uid) ? 0 : 1;
  return count;
}

}  // namespace lockstep::simulation
