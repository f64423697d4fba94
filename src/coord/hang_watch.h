// Standstills: members of the run whose phase and progress do not change, and what is done about
// them. Nothing that can be seen tells a long computation from an endless loop, or a slow disk from
// a dead connection. So whoever stands still is told of, and is evicted only for time in which
// others wait for it.
//
// Waiting for other members is never a standstill. Time in which something outside the program
// keeps it from running is none either (WorkerVitals::excused_ns). Threads: one at a time. Times:
// CLOCK_MONOTONIC, nanoseconds.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "coord/board.h"
#include "coord/events.h"
#include "rundir/standstills.h"

namespace lockstep::coord {

inline constexpr std::size_t kPhases = kPhaseNames.size();

const char* to_string(Phase phase);
// Data, forward, backward, optimizer, evaluation: phases that end by the worker's own work alone.
bool is_computing(Phase phase);

class HangWatch {
 public:
  // Beyond its limit a member is hung.
  //
  // By default what counts is time in which others wait for it, and the limit of a phase is the
  // largest of `kLeast`, ten times the longest standstill in it that ended by itself, awaited or
  // not, and twice the longest that an eviction cut short.
  // `strict` (--hang-timeout) is the limit of every phase but the exchange, awaited or not, and
  // nothing is learnt; 0: not strict.
  static constexpr std::uint64_t kLeast = 600'000'000'000;
  static constexpr std::uint64_t kFirstTold = 30'000'000'000;
  explicit HangWatch(std::uint64_t strict) : strict_(strict) {}
  bool strict() const { return strict_ != 0; }

  // `awaited`: another member waits for something that this one owns.
  void observe(const WorkerProgress& seen, const WorkerVitals& vitals, bool awaited,
               std::uint64_t now);
  void forget(WorkerUid worker) { watched_.erase(worker); }
  // The agent itself was away: the time since the last look counts for nobody.
  void skip_to(std::uint64_t now);
  // Somebody has stood still for a moment. Before that nobody need ask who is awaited.
  bool any_still() const;

  struct Standstill {
    WorkerUid worker;
    Phase phase = Phase::kIdle;
    std::uint64_t lasted = 0;   // without what is excused
    std::uint64_t counted = 0;  // of it, what decides
    bool awaited = false;       // for most of it
    double ran = 0;             // CPUs that its threads have had on average
  };
  // The worst one beyond its limit.
  std::optional<Standstill> hung() const;
  // It is evicted: that is learnt, and what counted for the others begins anew, so that a stall of
  // the whole machine does not cost all of them at once.
  void evicted(const Standstill& hang);
  // Those that have lasted for kFirstTold, or twice as long as when they were last returned here.
  // A standstill no longer than twice of what has ended by itself in that phase is no news.
  std::vector<Standstill> to_tell();

  std::uint64_t limit(Phase phase) const;
  // What is to be known in the run's next launch: empty while all limits are kLeast.
  const std::vector<rundir::Standstill>& learnt() const { return learnt_; }
  void remember(const std::vector<rundir::Standstill>& earlier);

 private:
  struct Watched {
    Phase phase = Phase::kIdle;
    std::uint64_t progress = 0, at = 0;
    std::uint64_t lasted = 0, counted = 0, ran = 0, tell_at = 0;
    // Told, and not yet left out: vitals come less often than looks at the board.
    std::uint64_t excused = 0;
    WorkerVitals vitals;  // as of `at`
    void begin(Phase to, std::uint64_t count);
    Standstill standstill(WorkerUid worker) const;
  };
  void learn(Phase phase, std::uint64_t ended, std::uint64_t cut_short);

  std::uint64_t strict_;
  std::array<std::uint64_t, kPhases> ended_{}, cut_short_{};  // the longest, by phase
  std::vector<rundir::Standstill> learnt_;
  std::map<WorkerUid, Watched> watched_;
};

}  // namespace lockstep::coord
