// torch.optim's state_dicts as values of a .pt file, and back:
//   {"state": {0: {"step": ..., "exp_avg": ...}}, "param_groups": [{"lr": ..., "params": [0]}]}
// Errors: kUsage (a state without groups, or of an optimizer that does not say), kBadData (a value
// that does not fit). Threads: as the Exporter's and the Importer's.
#pragma once

#include "checkpoint/pt/convert.h"
#include "lockstep/optimizer_state.h"

namespace lockstep::checkpoint::pt {

Result<pickle::Value> optimizer_value(Exporter& out, const OptimizerStateDict& dict);

// Settings of other kinds than OptimizerStateDict's (names of parameters, say) are left out.
Result<OptimizerStateDict> optimizer_state(Importer& in, const pickle::Value& dict);

}  // namespace lockstep::checkpoint::pt
