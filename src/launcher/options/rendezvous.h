// Which node of how many this is, and where they meet: torchrun's rendezvous options, ours, and
// what Slurm says.
//
// Errors: kUsage. Threads: values.
#pragma once

#include <span>
#include <string>

#include "launcher/options/option_table.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

// Once all options are read. What Slurm says of its step is taken before, where the user says
// nothing of nodes.
Status ask_slurm(Raw& raw, const Environment& environment);
Status combine_rendezvous(Raw& raw);
// What a worker of a run starts is a run of its own, on its node: the job's PET_* and Slurm's step
// are not its.
bool is_in_worker(const Environment& environment);

// Several nodes have to be told where they meet. `arguments`: of the command line, from which the
// error makes one that would do.
Status check_endpoint(const LaunchOptions& options, std::span<const std::string> arguments);

}  // namespace lockstep::launcher
