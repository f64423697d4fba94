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
  // and no replacement.
  Injector(std::vector<coord::Fault> faults, coord::Board board, Slot slot, bool first_start);
  // Faults of LOCKSTEP_INJECT.
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
};

}  // namespace lockstep::worker
