// Hangs: a worker in a computing phase whose progress counter stands still, or one between steps,
// at a checkpoint or a copy that makes no progress while others wait for it. Waiting for peers is
// never a hang, however long. Threads: one at a time. Times: CLOCK_MONOTONIC, nanoseconds.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "base/ids.h"
#include "coord/board.h"
#include "coord/events.h"

namespace lockstep::coord {

const char* to_string(Phase phase);
// Data, forward, backward, optimizer, evaluation: phases that end by the worker's own work alone.
bool is_computing(Phase phase);
// Idle, snapshot, heal: the worker's own work or the program's code, of any length as long as
// nobody waits for it.
bool is_between(Phase phase);

class HangWatch {
 public:
  // Limit: the larger of `floor` and 10 times the longest standstill seen in that phase; not below
  // `first` as long as nobody is known to have come through the phase: a commit shows it of those
  // of a step. Until then time on a CPU is no standstill, up to 9 times `first` (a program
  // compiles, loads or computes at a slow machine's pace), unless `first` is no more than `floor`,
  // which is how somebody asks for one limit. `between`: the floor of the phases between computing
  // ones, where the clock runs only while the worker is awaited.
  HangWatch(std::uint64_t floor, std::uint64_t first, std::uint64_t between)
      : floor_(floor), first_(first), between_(between) {}

  // `awaited`: another worker waits in a transaction that this one has not applied.
  void observe(const WorkerProgress& worker, bool has_committed, bool awaited, std::uint64_t now);
  void forget(WorkerUid worker) { watched_.erase(worker); }
  // It waits for something outside the run: its clock stands still, and nothing is learnt from it.
  void excuse(WorkerUid worker, std::uint64_t now);

  struct Hang {
    WorkerUid worker;
    Phase phase;
    std::uint64_t still;  // how long without progress
  };
  // The worst one beyond its limit, of those that `counts` is true of.
  std::optional<Hang> hung(std::uint64_t now, const std::function<bool(WorkerUid)>& counts) const;
  // After an eviction everybody has at least `floor` more: a stall of the whole machine shall not
  // cost all of them at once.
  void grant(std::uint64_t now);
  // All clocks start anew: after a pause of the agent itself.
  void restart(std::uint64_t now);

 private:
  struct Watched {
    Phase phase = Phase::kIdle;
    std::uint64_t progress = 0, since = 0;
    bool has_committed = false;
    // At `since`, and now.
    std::uint64_t ran_before = 0, ran = 0, starved_before = 0, starved = 0;
    void restart(std::uint64_t now);
    // Without progress. That it waits for a CPU is no fault of the worker's.
    std::uint64_t still(std::uint64_t now) const;
  };
  std::uint64_t limit(const Watched& watched) const;

  std::uint64_t floor_, first_, between_;
  // By phase.
  std::array<std::uint64_t, 16> longest_{};
  std::array<bool, 16> passed_{};  // somebody came through it
  std::map<WorkerUid, Watched> watched_;
};

}  // namespace lockstep::coord
