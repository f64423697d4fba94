#include "coord/incident.h"

#include <nlohmann/json.hpp>

#include "base/json.h"

namespace lockstep::coord {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, std::uint64_t IncidentPhases::*> kTimes[] = {
    {"death", &IncidentPhases::death},       {"noticed", &IncidentPhases::noticed},
    {"aborted", &IncidentPhases::aborted},   {"regrouped", &IncidentPhases::regrouped},
    {"resumed", &IncidentPhases::resumed},   {"committed", &IncidentPhases::committed},
    {"rejoined", &IncidentPhases::rejoined},
};

}  // namespace

std::string to_json(const Incident& incident, double wall_time_s) {
  const IncidentPhases& phases = incident.phases;
  const std::uint64_t start = phases.death != 0 ? phases.death : phases.noticed;
  Json ns = Json::object(), ms = Json::object();
  for (const auto& [name, member] : kTimes) {
    const std::uint64_t at = phases.*member;
    ns[name] = at;
    ms[name] = at == 0 || at < start ? Json() : Json(static_cast<double>(at - start) / 1e6);
  }
  Json victims = Json::array();
  for (const Victim& victim : incident.victims)
    victims.push_back(
        {{"uid", victim.uid.value()},
         {"rank", victim.rank.value()},
         {"cause", victim.cause + (victim.error.empty() ? "" : ": " + victim.error)}});
  const Json json{{"schema", 1},
                  {"incident", incident.number},
                  {"rung", incident.rung},
                  {"txn", incident.txn.value()},
                  {"victims", victims},
                  {"wall_time_s", wall_time_s},
                  {"ms", ms},
                  {"monotonic_ns", ns}};
  return json_text(json, 2) + "\n";
}

}  // namespace lockstep::coord
