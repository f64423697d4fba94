// Which member serves the newcomers of its host with a copy of its state. A donor serves all with
// one copy. Another one is asked for when the donor died, or when the table that a newcomer aimed
// at is out and does not list it. Threads: one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "coord/board_view.h"
#include "coord/turn.h"
#include "coord/worker.h"

namespace lockstep::coord {

class Donor {
 public:
  // `retry`: between two requests, nanoseconds.
  explicit Donor(std::uint64_t retry) : retry_(retry) {}

  // In each turn while the group runs. `proposed`: in rank order.
  void choose(const Workers& workers, const std::vector<WorkerUid>& proposed,
              const BoardView& board, Turn& turn);

 private:
  bool has_missed(const BoardView& board, std::uint64_t now) const;

  std::uint64_t retry_;
  WorkerUid uid_{0};  // 0: none
  std::uint64_t request_ = 0, asked_at_ = 0, asked_txn_ = 0;
};

}  // namespace lockstep::coord
