// How a host's workers are started: their seats and slots, the process that forks them, and what is
// tried again where that comes to nothing. Threads: one at a time. Times: nanoseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "coord/events.h"
#include "coord/keeper_messages.h"
#include "coord/run_facts.h"
#include "coord/settings.h"
#include "coord/slots.h"
#include "coord/turn.h"
#include "coord/worker.h"

namespace lockstep::coord {

// Between two tries of what the system refuses: 50 ms, doubled each time up to 1 s.
class Pause {
 public:
  // False as long as the pause lasts.
  bool over(std::uint64_t now) const { return !until_ || now >= *until_; }
  std::optional<std::uint64_t> until() const { return until_; }
  void begin(std::uint64_t now) {
    until_ = now + length_;
    length_ = std::min<std::uint64_t>(2 * length_, 1'000'000'000);
  }
  void end() { until_.reset(); }

 private:
  std::optional<std::uint64_t> until_;
  std::uint64_t length_ = 50'000'000;
};

class Spawner {
 public:
  static constexpr int kMostTries = 10;   // of workers, without one that is ready
  static constexpr int kMostZygotes = 5;  // without a worker that comes out of one

  // All of them outlive it. It adds workers, and drops those that have not been forked.
  // `stay`: its host's.
  Spawner(const Config& config, const Stay& stay, const RunFacts& run, Turn& turn, Workers& workers)
      : config_(config), stay_(stay), run_(run), turn_(turn), workers_(workers) {}

  void start();
  // On a fresh board.
  void start_again();
  void start_missing();

  void on(const event::ZygoteReady&) { zygote_.ready = true; }
  // What the run is to know of it, if anything.
  std::optional<Report> on(const event::ZygoteLost& lost);

  // A worker has said Hello; is ready; has ended before it took part; is gone.
  void note_hello();
  void note_ready() { tries_ = {}; }
  void note_in_vain();
  void note_gone(const Worker& worker);
  // As SlotPool's.
  void note_slots(std::uint64_t last_listed, std::uint64_t applied) {
    slots_.observe(last_listed, applied);
  }

  int failed() const { return tries_.failed; }  // in vain, one after the other
  bool tries_on() const { return tries_.failed < kMostTries; }

  // When something is due, and what is then to be called.
  std::optional<std::uint64_t> fork_deadline(const Worker& worker) const;
  void give_zygote_up();
  std::optional<std::uint64_t> zygote_pause() const { return zygote_.pause.until(); }
  void end_zygote_pause();
  std::optional<std::uint64_t> pause() const { return tries_.pause.until(); }
  void end_pause() { tries_.pause.end(); }  // then start_missing() tries again

 private:
  // Since a worker was last ready.
  struct Tries {
    Pause pause;
    int failed = 0;
  };
  // Since one was ready as a worker said Hello.
  struct Zygote {
    bool ready = false;
    int losses = 0;
    Pause pause;
  };

  bool holds_seat(const Worker& worker) const;
  std::optional<int> free_seat(int seats) const;
  void drop_unforked(const char* why);

  const Config& config_;
  const Stay& stay_;
  const RunFacts& run_;
  Turn& turn_;
  Workers& workers_;

  std::uint32_t last_number_ = 0;  // of a uid
  SlotPool slots_;
  Tries tries_;
  Zygote zygote_;
};

}  // namespace lockstep::coord
