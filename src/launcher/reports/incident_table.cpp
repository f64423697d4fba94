#include "launcher/reports/incident_table.h"

#include <array>
#include <cstdio>
#include <map>

#include "base/text.h"

namespace lockstep::launcher {
namespace {

std::string row(const char* name, const std::string& value) {
  std::array<char, 80> line;
  std::snprintf(line.data(), line.size(), "  %-20s %12s\n", name, value.c_str());
  return line.data();
}

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
  // In the order of time; what is alike, or was not reached, in this one.
  const std::multimap<std::uint64_t, const char*> rows{
      {p.noticed, "noticed"},          {p.aborted, "aborted"},
      {p.regrouped, "regrouped"},      {p.resumed, "step begun again"},
      {p.committed, "step committed"}, {p.rejoined, "replacement joined"}};
  const std::uint64_t begin = p.death != 0 ? p.death : p.noticed;
  // Only an injected fault leaves its time; else the table counts from `noticed`.
  text += p.death != 0 ? row("death", "0.00 ms") : "  death                        -\n";
  for (const auto& [time, name] : rows) {
    if (time == 0) continue;
    const double ms = (static_cast<double>(time) - static_cast<double>(begin)) / 1e6;
    text += row(name, with_decimals(ms, 2) + " ms");
  }
  return text;
}

bool says_more(const coord::Incident& incident) {
  const coord::IncidentPhases& p = incident.phases;
  return incident.rung == 1 || (p.aborted | p.regrouped | p.resumed | p.committed) != 0;
}

bool settled(const coord::Incident& incident) {
  return incident.phases.rejoined != 0 || incident.rung != 1;
}

}  // namespace lockstep::launcher
