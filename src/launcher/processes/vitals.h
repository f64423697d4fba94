// What the system tells of one process: how much it runs, and what outside the program keeps it
// from running. Sources: proc(5); the kernel's cgroup-v1/freezer-subsystem and cgroup-v2 documents.
// Control groups are found as they are mounted at the first look of all.
//
// Threads: one at a time. Errors: none; what cannot be read counts for nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/control_groups.h"
#include "coord/events.h"

namespace lockstep::launcher {

class Vitals {
 public:
  // Between this look and the one before: adds to what the process has run, and, as excused, the
  // whole time if it `waits` or is stopped, traced or frozen now, else as long as the one of its
  // threads that had to wait longest for a CPU. Opens some files, a few for each thread.
  void look(pid_t pid, bool waits, std::uint64_t now);
  // The time up to the next look is of no interest.
  void skip() { at_ = 0; }
  const coord::WorkerVitals& so_far() const { return so_far_; }

 private:
  struct Thread {
    std::uint64_t ran = 0, starved = 0;
  };
  std::uint64_t at_ = 0;                   // the last look; 0: none counts
  std::map<std::string, Thread> threads_;  // by id, as of then
  coord::WorkerVitals so_far_;
};

// Stopped by a signal, or under a debugger: by the text of /proc/PID/status.
bool is_held(std::string_view status);
// One of its control groups is frozen, or what that is in.
bool is_frozen(const ControlGroups& groups, std::string_view process);

}  // namespace lockstep::launcher
