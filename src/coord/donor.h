// Which member serves the newcomers of its host with a copy of its state. A donor serves all with
// one copy. Another one is asked for when the donor died, or when the table that a newcomer aimed
// at is out and does not list it: then later and later, as members wait for each copy to be loaded,
// for longer each time (transaction/join_patience.h), and a newcomer may never load one. A new
// newcomer begins anew. Threads: one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "coord/board_view.h"
#include "coord/turn.h"
#include "coord/worker.h"

namespace lockstep::coord {

class Donor {
 public:
  static constexpr int kMostDoublings = 7;  // as of patience

  // `retry`: between a copy that was missed and the next request, nanoseconds; at the first time
  // since the request before.
  explicit Donor(std::uint64_t retry) : retry_(retry) {}

  // In each turn while the group runs. `proposed`: in rank order. `others`: newcomers on other
  // hosts wait, too.
  void choose(const Workers& workers, const std::vector<WorkerUid>& proposed,
              const BoardView& board, bool others, Turn& turn);

 private:
  bool is_due(const BoardView& board, std::uint64_t now);

  std::uint64_t retry_;
  int misses_ = 0;       // in a row
  WorkerUid newest_{0};  // of the newcomers that have waited
  bool others_ = false;  // the same, on other hosts
  WorkerUid uid_{0};     // 0: none
  std::uint64_t request_ = 0, asked_at_ = 0, asked_txn_ = 0;
  std::uint64_t missed_at_ = 0;  // 0: not yet
};

}  // namespace lockstep::coord
