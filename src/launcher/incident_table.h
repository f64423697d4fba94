// Incidents for people: one short table each, in milliseconds.
#pragma once

#include <string>

#include "coord/incident.h"

namespace lockstep::launcher {

// Lines, each with its newline. Phases that were not reached are left out.
std::string incident_table(const coord::Incident& incident);

// Nothing more will come of it, apart perhaps from a replacement.
bool settled(const coord::Incident& incident);

}  // namespace lockstep::launcher
