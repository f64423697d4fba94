// What a worker's groups and exchanges are made of: the one place that says which engine they are
// (today shm/), and where in its memory each of them lies.
//
// Errors: those of the groups and exchanges. Threads: one.
#pragma once

#include <cstdint>
#include <memory>

#include "base/ids.h"
#include "comm/exchange.h"
#include "comm/group.h"
#include "coord/board.h"
#include "coord/table.h"

namespace lockstep::comm {

class Engine {
 public:
  // `board`: stays mapped, so many bytes of it. `slot`, `uid`: this worker's.
  Engine(coord::Board board, std::uint64_t board_bytes, Slot slot, WorkerUid uid)
      : board_(board), board_bytes_(board_bytes), slot_(slot), uid_(uid) {}

  // At most once, and before any exchange.
  std::unique_ptr<Group> make_group(const coord::Table& table);
  // Behind all made before: all workers make the same ones in the same order. The plan's
  // `board_bytes`, `offset` and `hosts` are the engine's to say.
  std::unique_ptr<Exchange> make_exchange(ExchangePlan plan);

 private:
  coord::Board board_;
  std::uint64_t board_bytes_;
  Slot slot_;
  WorkerUid uid_;
  std::uint64_t next_ = 0;  // first free byte of the engine's memory
};

}  // namespace lockstep::comm
