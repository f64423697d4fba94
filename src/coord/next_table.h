// Who takes part in the next transaction (docs/design/protocol.md, "A newcomer"). Simulations
// decide by the same function.
//
// Threads: values. Errors: none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coord/table.h"

namespace lockstep::coord {

// What the member that publishes it goes by. What is referred to outlives it.
struct NextTable {
  const Table& today;               // of a transaction that is whole
  const Table& wish;                // the newest proposal on its board
  std::span<const WorkerUid> dead;  // as its board knows
  std::span<const Member> ready;    // newcomers that have loaded the state of today's start
  bool begins_step = true;          // the next transaction does: members come and go with it alone
  std::uint64_t last_step = 0;      // the run ends after so many steps, if its time is up
};

// Whom the wish lists that takes no part today and lives.
std::vector<Member> joiners(const Table& today, const Table& wish, std::span<const WorkerUid> dead);

// All but its parts.
Table next_table(const NextTable& from);

}  // namespace lockstep::coord
