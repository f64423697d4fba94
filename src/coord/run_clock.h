// The time that a run has run, and its limit. It goes on from what the first start's checkpoint
// has, through restarts of the group, recovery included. Threads: one at a time. Nanoseconds.
#pragma once

#include <cstdint>
#include <optional>

#include "coord/run_time.h"
#include "rundir/time_stop.h"

namespace lockstep::coord {

class RunClock {
 public:
  // With the first table of each start of the group. What is recorded is in force.
  void begin(const RunTime& time, std::uint64_t now);
  std::uint64_t ran(std::uint64_t now) const { return ran_ + (now - from_.value_or(now)); }

  // When the limit is reached. None: there is no limit, or it is reached, or a table has named the
  // last step.
  std::optional<std::uint64_t> deadline() const;
  void set_up() { up_ = true; }
  bool is_up() const { return up_; }

  // A table names the last step. False: it is known.
  bool name_last(std::uint64_t step);
  std::uint64_t last_step() const { return last_step_; }  // 0: not yet named
  rundir::TimeStop stop(std::uint64_t now) const;         // to be recorded

  // All that is known of it now.
  struct Known {
    RunTime time;       // `ran` by now
    bool runs = false;  // since the first table of all
    bool up = false;
  };
  Known known(std::uint64_t now) const;
  void go_on(const Known& known, std::uint64_t now);

 private:
  std::uint64_t limit_ = 0;            // 0: none
  std::uint64_t ran_ = 0;              // at ...
  std::optional<std::uint64_t> from_;  // ... the first table of all
  bool up_ = false;
  std::uint64_t last_step_ = 0;  // as told to be recorded; of this board
};

}  // namespace lockstep::coord
