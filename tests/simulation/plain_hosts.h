// Plain runs on one to three simulated hosts: virtual time, processes that live and die as a seed
// has it, messages between the parts that take their time. What holds in all of them is checked as
// it happens.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::simulation {

struct PlainOutcome {
  std::string violation, journal;  // empty: none
  std::uint64_t deaths = 0, spawn_failures = 0, restarts = 0, signals = 0, killed_late = 0,
                stopped_jobs = 0, good_ends = 0, frozen = 0;
};

PlainOutcome run_plain_schedule(std::uint64_t seed);

}  // namespace lockstep::simulation
