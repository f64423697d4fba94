// Incidents for people: one short table each, in milliseconds.
#pragma once

#include <string>

#include "coord/incident.h"

namespace lockstep::launcher {

// Lines, each with its newline: phases in the order of time; those that were not reached are left
// out. A death whose time is not known is '-': then the table counts from `noticed`.
std::string incident_table(const coord::Incident& incident);

// False: the end of a group that had no time to do anything; the deaths were told one by one.
bool says_more(const coord::Incident& incident);

// Nothing more will come of it, apart perhaps from a replacement.
bool settled(const coord::Incident& incident);

}  // namespace lockstep::launcher
