#include "coord/words.h"

#include <cstdio>

#include "coord/exit_status.h"
#include "coord/table.h"

namespace lockstep::coord {

std::string worker_name(int rank, std::uint64_t uid) {
  return "rank " + std::to_string(rank) + " (worker " +
         std::to_string(number_in_host(WorkerUid(uid))) + ")";
}

std::string policy(int workers, const std::string& first, int max_restarts) {
  return policy(std::to_string(workers) + (workers == 1 ? " worker" : " workers"), first,
                max_restarts);
}

std::string policy(const std::string& whose, const std::string& first, int max_restarts) {
  return whose + "; " + first + "; restarts of all: " + std::to_string(max_restarts) +
         " (--max-restarts)";
}

std::string not_ended(const std::string& names, std::uint64_t waited_ns, const char* for_what,
                      const char* hint) {
  return names + ": not ended " + seconds(waited_ns) + " after " + for_what + hint + "; killed";
}

std::string waiting_for(const std::string& names, std::uint64_t left_ns) {
  return "waiting for " + names + ", up to " + seconds(left_ns) + " (--shutdown-timeout)";
}

}  // namespace lockstep::coord
