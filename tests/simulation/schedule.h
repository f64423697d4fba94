// One random run: a configuration, a list of faults and their times, all from one seed; and the
// verdict.
#pragma once

#include <cstdint>
#include <string>

#include "simulation/world.h"

namespace lockstep::simulation {

struct Outcome {
  std::string violation;  // empty: all invariants held
  std::string journal;    // what the coordinator did, for the report
  std::uint64_t faults = 0, deaths = 0, incidents = 0, rejoins = 0, restarts = 0, scales = 0;
  std::uint64_t joiners_killed = 0, orphaned = 0, overtaken = 0, finished = 0, events = 0;
  std::uint64_t attached = 0, attached_rejoins = 0;  // runs whose workers are started by hand
  std::uint64_t out_of_time = 0;                     // runs that ended by their time limit
  std::uint64_t out_of_time_again =
      0;                        // of them, those whose group restarted after it was recorded
  std::uint64_t signalled = 0;  // runs that ended by a signal to whomever, and went on again
  std::uint64_t let_go = 0;     // runs that went on without a worker that a signal had come to
  std::uint64_t crowded = 0;    // times that more workers were alive than there are shares
  std::uint64_t hung_evicted = 0, slow_evicted = 0;  // for a hang, of those that do and do not
  std::uint64_t slowed = 0;                          // faults of plan_standstills()
  std::uint64_t held_back = 0;  // spawns that left out a slot as a table to come listed its owner
};

Outcome run_schedule(std::uint64_t seed, const BoardSizes& sizes = {});

}  // namespace lockstep::simulation
