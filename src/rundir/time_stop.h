// RUN_DIR/stop.json: after which step a run ended for its time limit. The file is there before any
// worker acts on it, so that the run can be done again up to that step (`--max-steps`), and so that
// the same command stops there again.
//
//   {"stop_after_step":S,"limit_s":L,"run_s":R}   S optimizer steps of the whole run
//
// Errors: kDisk; kBadData for a file that says something else. Threads: functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/env.h"
#include "lockstep/status.h"

namespace lockstep::rundir {

struct TimeStop {
  std::uint64_t stop_after_step = 0;
  double limit_s = 0, run_s = 0;
  friend bool operator==(const TimeStop&, const TimeStop&) = default;
};

Status write_time_stop(Env& env, const std::string& run_dir, const TimeStop& stop);
Result<std::optional<TimeStop>> read_time_stop(Env& env, const std::string& run_dir);
// A longer limit lifts the stop: the file goes, if there is one.
Status remove_time_stop(Env& env, const std::string& run_dir);

}  // namespace lockstep::rundir
