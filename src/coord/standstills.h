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
  // of them.
  Standstills(const Config& config, Turn& turn, Workers& workers, const BoardView& board)
      : config_(config),
        turn_(turn),
        workers_(workers),
        board_(board),
        hangs_(config.timing.strict_hang) {}

  void see(const event::Progress& report);
  void see(const event::Vitals& report);
  void remember(const event::Remembered& earlier);
  void forget(WorkerUid uid) { hangs_.forget(uid); }
  void skip_pause() { hangs_.skip_to(turn_.now); }
  void begin_group() { start_told_ = 0; }

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
  void tell_slow_start(const RunFacts& run);

 private:
  std::vector<WorkerUid> awaited() const;
  std::string not_ready(const Worker& worker) const;

  const Config& config_;
  Turn& turn_;
  Workers& workers_;
  const BoardView& board_;
  HangWatch hangs_;
  std::vector<rundir::Standstill> recorded_;
  WorkerVitals zygote_vitals_;
  std::uint64_t vitals_at_ = 0;   // the last event::Vitals
  std::uint64_t start_told_ = 0;  // of the group: when it had lasted so long, that was said
};

}  // namespace lockstep::coord
