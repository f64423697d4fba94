// Workers of a host that get no further: who is told of, who is to be evicted, and how slow a start
// may be. Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coord/board_view.h"
#include "coord/events.h"
#include "coord/hang_watch.h"
#include "coord/run_facts.h"
#include "coord/settings.h"
#include "coord/turn.h"
#include "coord/worker.h"

namespace lockstep::coord {

class Standstills {
 public:
  // All of them outlive it. Of workers it changes the time that they are given, and what vitals say
  // of them. `stay`: their host's.
  Standstills(const Config& config, const Stay& stay, const RunFacts& run, Turn& turn,
              Workers& workers, const BoardView& board)
      : config_(config),
        stay_(stay),
        run_(run),
        turn_(turn),
        workers_(workers),
        board_(board),
        hangs_(config.timing.strict_hang) {}

  void see(const event::Progress& report);
  void see(const event::Vitals& report);
  void remember(const event::Remembered& earlier);
  void forget(WorkerUid uid) { hangs_.forget(uid); }
  void skip_pause(std::uint64_t gap) {
    hangs_.skip_to(turn_.now);
    began_at_ += gap;
  }
  void begin_group() {
    began_at_ = turn_.now;
    start_told_ = 0;
  }

  // Who is only slow may be healthy, and its next eviction takes twice as long; else a limit was
  // asked for.
  bool strict() const { return hangs_.strict(); }

  // Somebody to be evicted, and why.
  struct Hung {
    WorkerUid worker;
    std::string why;
  };
  std::optional<Hung> hung();
  void tell();
  void tell_slow_start();
  // In which transaction its workers wait.
  Waits waits() const;

 private:
  bool waits_elsewhere(Txn txn, std::uint32_t& items) const;
  std::vector<WorkerUid> awaited() const;
  std::string not_ready(const Worker& worker) const;

  const Config& config_;
  const Stay& stay_;
  const RunFacts& run_;
  Turn& turn_;
  Workers& workers_;
  const BoardView& board_;
  HangWatch hangs_;
  std::vector<rundir::Standstill> recorded_;
  WorkerVitals zygote_vitals_;
  std::uint64_t vitals_at_ = 0;   // the last event::Vitals
  std::uint64_t began_at_ = 0;    // the start of the group
  std::uint64_t start_told_ = 0;  // when it had lasted so long, that was said
};

}  // namespace lockstep::coord
