// How an agent dials a launcher that leads, or may.
#pragma once

#include <string>

#include "control/dial.h"

namespace lockstep::star {

// `plan`: a Spoke's or a Lookout's. Patience is Dial's own.
template <class Plan>
control::Dial::Plan dial_plan(const Plan& plan, const std::string& host, int port) {
  control::Dial::Plan dial;
  dial.host = host;
  dial.port = port;
  dial.on_this_machine = plan.on_this_machine;
  dial.self = plan.party;
  dial.tls = plan.tls;
  dial.run_id = plan.self.run_id;
  dial.from = plan.from;
  dial.find = plan.find;
  return dial;
}

}  // namespace lockstep::star
