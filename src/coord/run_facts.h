// What every host knows of the run: the run keeper (run_keeper.h) alone writes it, the host keepers
// (host_keeper.h) read it. A value.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::coord {

// Coordinator::status() has their names, in this order.
enum class Group { kStarting, kRunning, kRestarting, kFinishing, kStopping, kStopped };

struct RunFacts {
  Group group = Group::kStarting;
  std::uint64_t since = 0;            // start of this (re)start, nanoseconds
  bool elastic = true;                // the program runs its steps through Lockstep
  std::uint32_t virtual_workers = 0;  // 0: not yet known
  std::uint32_t wanted = 0;           // workers asked for: at the start, or by the last scale
  std::uint32_t target = 0;           // the same, less those that died and are not replaced
  int restarts = 0;                   // of the group, so far
  bool in_order = false;              // stopping: those that hold the state leave at the next table
  int stop_code = 0;                  // of a stop
  std::string stop_reason;

  bool is_stopping() const { return group == Group::kStopping || group == Group::kStopped; }
  bool is_ending() const { return group == Group::kFinishing || is_stopping(); }
};

}  // namespace lockstep::coord
