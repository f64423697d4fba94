// torchrun's contract with a worker: the environment that each gets (torch 2.11,
// torch/distributed/elastic/agent/server/local_elastic_agent.py).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "coord/actions.h"
#include "launcher/options/options.h"

namespace lockstep::launcher {

using Variables = std::vector<std::pair<std::string, std::string>>;

// What differs by node and attempt.
struct Place {
  int local_world_size = 1, group_rank = 0, group_world_size = 1;
  int role_base_rank = 0, role_world_size = 1;  // ROLE_RANK = role_base_rank + local rank
  std::string master_addr = "127.0.0.1";        // numeric on several nodes
  int master_port = 0;
  bool agent_store = false;  // served at MASTER_ADDR and MASTER_PORT by an agent
  // GLOO_SOCKET_IFNAME and TP_SOCKET_IFNAME, where the user has not set them; empty: none.
  std::string interface;
  std::string marker;  // Watcher's; empty: none
};
// That of a run on this host alone.
Place place_on_one_host(const LaunchOptions& options, const coord::action::Spawn& spawn,
                        int master_port, bool agent_store);

// `error_file` may be empty.
Variables worker_variables(const LaunchOptions& options, const coord::action::Spawn& spawn,
                           const Place& place, const std::string& error_file);

// Names that must not be inherited from whoever started the launcher: strays are taken for a
// worker's rank.
std::vector<std::string> worker_variable_names();

// {"OMP_NUM_THREADS=1"}, or nothing where the user has set it.
std::vector<std::string> thread_variable();

// The variable, with its value, by which GNU OpenMP binds the threads of a process to CPUs; empty
// where none does. Its places are counted from the first CPU in every process, so that all workers
// of a node have their main thread on that one (libgomp's manual, OMP_PROC_BIND).
std::string binding_variable(const Environment& environment);

// For programs that link Lockstep: the above, and glibc's heap in huge pages (glibc's manual,
// "Memory Allocation Tunables") unless the user has tuned it. docs/decisions/0012 says why.
std::vector<std::string> linked_program_variables();

std::vector<std::string> to_entries(const Variables& variables);  // NAME=value

}  // namespace lockstep::launcher
