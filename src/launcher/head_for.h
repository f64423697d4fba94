// Who decides about the workers of a program: chosen once, by its kind.
#pragma once

#include <memory>
#include <optional>

#include "coord/head.h"
#include "launcher/by_hand/attached.h"
#include "launcher/hosts/hosts_run.h"
#include "launcher/nodes/nodes_run.h"
#include "launcher/options/options.h"
#include "launcher/program/program.h"

namespace lockstep::launcher {

// Linked programs have the coordinator, all others torchrun's contract. `zygote`: a linked one's
// workers are forked. `nodes`, `hosts`: of a run on several.
std::unique_ptr<coord::Head> head_for(const LaunchOptions& options, const Program& program,
                                      bool zygote, const std::optional<Attached>& attached,
                                      NodesRun* nodes, HostsRun* hosts);

}  // namespace lockstep::launcher
