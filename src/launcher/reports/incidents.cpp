#include "launcher/reports/incidents.h"

#include <chrono>
#include <utility>

#include "base/log.h"
#include "launcher/reports/incident_table.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kReplacementTime = 3s;  // a table waits this long for its last line

}  // namespace

void Incidents::record(const coord::Incident& incident) {
  if (write_)
    write_(incident);
  else
    held_.push_back(incident);
  if (!printed_.contains(incident.number)) {
    open_.try_emplace(incident.number, Open{incident, Deadline::in(kReplacementTime)})
        .first->second.incident = incident;
    return;
  }
  const coord::IncidentPhases& p = incident.phases;
  const std::uint64_t begin = p.death != 0 ? p.death : p.noticed;
  if (p.rejoined > begin)
    log_info("incident " + std::to_string(incident.number) + ": the replacement joined after " +
             std::to_string((p.rejoined - begin) / 1'000'000) + " ms");
}

void Incidents::write_by(Write write) {
  write_ = std::move(write);
  for (const coord::Incident& incident : std::exchange(held_, {})) write_(incident);
}

void Incidents::print(bool all) {
  // In the order of time: who is not due holds the later ones back.
  for (auto open = open_.begin(); open != open_.end();) {
    if (!all && !settled(open->second.incident) && !open->second.print_at.passed()) return;
    if (says_more(open->second.incident)) print_(incident_table(open->second.incident));
    printed_.insert(open->first);
    open = open_.erase(open);
  }
}

}  // namespace lockstep::launcher
