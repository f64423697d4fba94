// What the system tells of one process: how much it runs, and what outside the program keeps it
// from running. Sources: proc(5); the kernel's cgroup-v1/freezer-subsystem and cgroup-v2 documents.
// Control groups are found as they are mounted at the first look of all.
//
// Threads: one at a time. Errors: none; what cannot be read counts for nothing.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
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
  void skip() { at_ = since_ = 0; }
  // Since the first look behind the last skip(); nanoseconds.
  std::uint64_t looked_for(std::uint64_t now) const { return since_ == 0 ? 0 : now - since_; }
  const coord::WorkerVitals& so_far() const { return so_far_; }

 private:
  struct Thread {
    std::uint64_t ran = 0, starved = 0;
  };
  std::uint64_t at_ = 0, since_ = 0;       // the last look, and the first; 0: none counts
  std::map<std::string, Thread> threads_;  // by id, as of then
  coord::WorkerVitals so_far_;
};

// Between two looks at all workers: a tenth of `shortest`, the time that the one has stood still
// which did so last. At least 0.1 s, at most 1 s or a tenth of a strict limit (--hang-timeout):
// by so much too long may a time count that is to be excused.
std::chrono::nanoseconds pause_between_looks(std::chrono::nanoseconds shortest,
                                             std::optional<std::chrono::nanoseconds> strict);

// Stopped by a signal, or under a debugger: by the text of /proc/PID/status.
bool is_held(std::string_view status);
// One of its control groups is frozen, or what that is in.
bool is_frozen(const ControlGroups& groups, std::string_view process);

}  // namespace lockstep::launcher
