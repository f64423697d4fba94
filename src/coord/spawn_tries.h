// How often a host tries what comes to nothing: to start workers, and the process that forks them.
// Threads: one at a time. Times: nanoseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

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

// Workers that ended before they took part, since one was last ready.
struct SpawnTries {
  static constexpr int kMost = 10;

  void fail(std::uint64_t now) {
    pause.begin(now);
    ++failed;
  }
  bool again() const { return failed < kMost; }

  Pause pause;
  int failed = 0;
};

// The process that forks a host's workers.
struct Zygote {
  static constexpr int kMostLosses = 5;

  // A worker that came out of one lives; while there is none, that says nothing of the next.
  void has_served() {
    if (!ready) return;
    losses = 0;
    pause = {};
  }
  bool given_up() const { return losses >= kMostLosses; }

  bool ready = false;
  int losses = 0;  // since it last served
  Pause pause;     // the same
};

}  // namespace lockstep::coord
