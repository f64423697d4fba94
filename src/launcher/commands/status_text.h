// What `lockstep status` and `lockstep stop` print of a run on several nodes. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "star/messages.h"

namespace lockstep::launcher {

std::string status_text(const star::message::Answer& answer);
// One line, without its end. docs/design/control.md has the fields.
std::string status_json(const star::message::Answer& answer);
// `answers`: of those that were told to stop; not empty.
std::string stop_text(const std::vector<star::message::Answer>& answers);

}  // namespace lockstep::launcher
