// A run under the launcher, seen from outside through its shared memory: who is a member, what each
// worker does, when. The board is found among the launcher's descriptors, so that the run is the
// very one that users have.
//
// Ownership: the launcher is this object's child; the destructor ends it. Errors: fatal (bench
// programs end with exit 1 and a sentence). Threads: one.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "coord/board.h"

namespace lockstep::bench {

[[noreturn]] void fail(const std::string& what);

// A worker's time inside data, forward, backward, evaluation and optimizer up to `at`
// (CLOCK_MONOTONIC, ns).
struct Busy {
  std::uint64_t at = 0, ns = 0;
};

class WatchedRun {
 public:
  // Starts `command` with its standard output and error in the file `log`.
  WatchedRun(const std::vector<std::string>& command, const std::string& log);
  ~WatchedRun();
  WatchedRun(const WatchedRun&) = delete;
  WatchedRun& operator=(const WatchedRun&) = delete;

  std::uint64_t started_ns() const { return started_ns_; }
  // Maps the board once the launcher has made it. False: not yet.
  bool find_board();
  // The launcher's exit code once it has ended.
  std::optional<int> ended();
  int wait();

  const coord::Board& board() const { return board_; }
  std::optional<coord::Table> newest_table() const;
  std::uint64_t dead_count() const;
  WorkerUid dead(std::uint64_t index) const;
  // Workers' processes: the launcher's children but the first, which they are forked from.
  std::vector<pid_t> workers() const;
  static Busy busy(const coord::WorkerSlot& slot);

 private:
  pid_t launcher_ = -1;
  std::uint64_t started_ns_ = 0;
  std::optional<int> code_;
  coord::Board board_;
};

}  // namespace lockstep::bench
