// Carries out injected faults (coord/faults.h has the rules' form). Threads: at() from one thread
// at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "coord/board.h"
#include "coord/faults.h"
#include "lockstep/status.h"

namespace lockstep::worker {

class Injector {
 public:
  Injector() = default;  // without faults
  // `board`, `slot`: where it is counted and stamped that a fault fired. `first_start`: no restart
  // and no replacement. `host`: the node's rank.
  Injector(std::vector<coord::Fault> faults, coord::Board board, Slot slot, bool first_start,
           int host = 0);
  // Faults of LOCKSTEP_INJECT, on the node GROUP_RANK.
  static Result<Injector> from_environment(coord::Board board, Slot slot, bool first_start);

  // Called by the step's code on entering `phase` (for shares: before each). Costs one branch
  // without faults. A newcomer that is in no table yet passes coord::kNewcomer. kThrow throws
  // std::runtime_error; everything else that fires ends or stops the process, or never returns.
  void at(coord::Phase phase, Txn txn, Rank rank,
          std::optional<std::uint32_t> share = std::nullopt) {
    if (!faults_.empty()) [[unlikely]]
      check(phase, txn, rank, share);
  }

 private:
  void check(coord::Phase phase, Txn txn, Rank rank, std::optional<std::uint32_t> share);

  std::vector<coord::Fault> faults_;
  coord::Board board_;
  Slot slot_;
  bool first_start_ = true;
  int host_ = 0;
};

}  // namespace lockstep::worker
