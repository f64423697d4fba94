// A host as its keeper tells the run's. A value, which may cross a network: stamps are by the
// host's own clock, which it names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "coord/run_facts.h"
#include "coord/worker.h"

namespace lockstep::coord {

struct HostView {
  Stay stay;
  std::uint64_t now = 0;        // when this was so; never smaller than before
  std::uint64_t reported = 0;   // reports that were given before it, or with it
  std::uint64_t obeyed = 0;     // the number of the last order
  std::uint64_t last_step = 0;  // Table::stop_after_step of its board's tables
  int signal = 0;               // that has come to all of its members that count; 0: not to all
  bool goes_on = false;         // as HostFacts has it
  bool stopped = false;         // a member has left with the table that stops the run in order
  Waits waits;
  std::vector<WorkerView> workers;  // alive, or asked for; by uid

  const WorkerView* find(WorkerUid uid) const {
    const auto found = std::lower_bound(
        workers.begin(), workers.end(), uid,
        [](const WorkerView& worker, WorkerUid wanted) { return worker.uid < wanted; });
    return found == workers.end() || found->uid != uid ? nullptr : &*found;
  }
  bool any(auto is) const { return std::any_of(workers.begin(), workers.end(), is); }
  // Those that count towards as many as are wanted.
  std::uint32_t active() const {
    return static_cast<std::uint32_t>(
        std::count_if(workers.begin(), workers.end(),
                      [](const WorkerView& worker) { return !worker.leaving(); }));
  }
  // Somebody can be waited for: not only what the zygote may still answer.
  bool is_empty() const {
    return !any([](const WorkerView& worker) { return !worker.is_ghost(); });
  }
};

}  // namespace lockstep::coord
