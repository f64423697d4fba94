// RUN_DIR/standstills.json: how long members of the run have stood still in a phase, where that
// makes the launcher wait longer than it would for others (coord/hang_watch.h). A launch goes on
// with what earlier ones have learnt.
//
//   [{"phase":"forward","longest_s":L,"cut_short_s":C}]   L ended by itself, C by an eviction
//
// Errors: kDisk; kBadData for a file that says something else. Threads: functions.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "lockstep/status.h"

namespace lockstep::rundir {

struct Standstill {
  std::string phase;
  double longest_s = 0, cut_short_s = 0;  // seconds, from 0 to a thousand years
  friend bool operator==(const Standstill&, const Standstill&) = default;
};

Status write_standstills(Env& env, const std::string& run_dir,
                         const std::vector<Standstill>& standstills);
// Empty: there is no such file.
Result<std::vector<Standstill>> read_standstills(Env& env, const std::string& run_dir);

}  // namespace lockstep::rundir
