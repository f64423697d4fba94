// Starts a run and prints milliseconds from just before the launcher's exec to the moment when the
// first sum is whole in every worker. Seen from outside, in the run's shared memory, ten times a
// millisecond: a worker leaves its wait for the sum by entering the optimizer phase, or has applied
// transaction 0 already.
//
//   start_driver --log FILE WORKERS -- lockstep run ...
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <string_view>

#include "base/deadline.h"
#include "programs/watched_run.h"

using namespace lockstep;
using namespace lockstep::bench;

static bool has_first_sum(const coord::WorkerSlot& slot) {
  return slot.uid.load() != 0 &&
         (slot.applied.load() > 0 ||
          slot.phase.load() == static_cast<std::uint64_t>(coord::Phase::kOptimizer));
}

int main(int argc, char** argv) {
  if (argc < 6 || std::string_view(argv[1]) != "--log" || std::string_view(argv[4]) != "--")
    fail("start_driver --log FILE WORKERS -- COMMAND");
  const std::size_t workers = std::strtoul(argv[3], nullptr, 10);
  WatchedRun run({argv + 5, argv + argc}, argv[2]);
  setpriority(PRIO_PROCESS, 0, -20);
  while (!run.find_board()) {
    if (run.ended()) fail("the run ended before its first sum");
    pause(std::chrono::microseconds(100));
  }
  std::set<std::uint32_t> done;
  std::uint64_t last_ns = 0;
  while (done.size() < workers) {
    if (run.ended()) fail("the run ended before its first sum");
    for (std::uint32_t s = 0; s < coord::kMaxSlots && s < 2 * workers; ++s)
      if (!done.contains(s) && has_first_sum(run.board().slot(Slot(s)))) {
        done.insert(s);
        last_ns = monotonic_ns();
      }
    pause(std::chrono::microseconds(100));
  }
  std::printf("%.3f\n", static_cast<double>(last_ns - run.started_ns()) / 1e6);
  return run.wait();
}
