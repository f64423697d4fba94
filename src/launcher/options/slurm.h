// Which node of how many this is, as a step of Slurm says it to its tasks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/options/options.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

struct SlurmNode {
  int nnodes = 1;
  int node_rank = 0;   // in the step, whose order `nodes` has
  std::string run_id;  // JOB.STEP
  int port = 0;        // 20000 + (7 · job + step) mod 10000: equal on all nodes, other for others
  std::vector<std::string> nodes;  // of the step; the first one's name is the endpoint's host
};

// Nothing outside a step that srun has started. Read are SLURM_STEP_ID, SLURM_STEP_NUM_NODES,
// SLURM_STEP_NODELIST, SLURM_NODEID and SLURM_JOB_ID: a step may have fewer nodes than its job.
// kUsage: one of them is missing or says something else than the others, or the step has more than
// one task on a node.
Result<std::optional<SlurmNode>> node_from_slurm(const Environment& environment);

// Of the step that this is in; 0: in none, or it does not say.
int slurm_step_nodes(const Environment& environment);

// For who starts a launcher in a job of several nodes, but not by srun; empty: it is none.
std::string slurm_without_a_step(const Environment& environment);

}  // namespace lockstep::launcher
