#include "launcher/incident_table.h"

#include <array>
#include <cstdio>
#include <utility>

namespace lockstep::launcher {
namespace {

std::string rung_text(int rung) {
  if (rung == 3) return "the group starts again";
  if (rung == 4) return "the run stops";
  return "the others go on";
}

}  // namespace

std::string incident_table(const coord::Incident& incident) {
  std::string text = "lockstep: incident " + std::to_string(incident.number) + " in transaction " +
                     std::to_string(incident.txn.value()) + ":";
  const char* separator = " ";
  for (const coord::Victim& victim : incident.victims) {
    text += separator + ("rank " + std::to_string(victim.rank.value()) + " " + victim.cause);
    separator = ", ";
  }
  text += "; " + rung_text(incident.rung) + "\n";
  const coord::IncidentPhases& p = incident.phases;
  const std::array<std::pair<const char*, std::uint64_t>, 7> rows{
      {{"death", p.death},
       {"noticed", p.noticed},
       {"aborted", p.aborted},
       {"regrouped", p.regrouped},
       {"step begun again", p.resumed},
       {"step committed", p.committed},
       {"replacement joined", p.rejoined}}};
  const std::uint64_t begin = p.death != 0 ? p.death : p.noticed;
  for (const auto& [name, time] : rows) {
    if (time == 0) continue;
    const double ms = (static_cast<double>(time) - static_cast<double>(begin)) / 1e6;
    std::array<char, 80> line;
    std::snprintf(line.data(), line.size(), "  %-20s %9.2f ms\n", name, ms);
    text += line.data();
  }
  return text;
}

bool settled(const coord::Incident& incident) {
  return incident.phases.rejoined != 0 || incident.rung != 1;
}

}  // namespace lockstep::launcher
