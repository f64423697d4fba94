// Why a run does not start again, in messages. Threads: any.
#pragma once

#include <string>

namespace lockstep {

// Of one that has used up --max-restarts. `from`: " from a checkpoint", or nothing.
inline std::string no_restart(int max_restarts, const std::string& from = "") {
  const std::string most = std::to_string(max_restarts);
  return max_restarts == 0
             ? "--max-restarts 0 allows no restart" + from
             : "no restart is left: " + most + " of " + most + " used (--max-restarts gives more)";
}

}  // namespace lockstep
