// A board as its host's keeper knows it. A value.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "coord/table.h"
#include "coord/worker.h"

namespace lockstep::coord {

struct BoardView {
  std::vector<Table> tables;    // as last seen, oldest first
  std::vector<WorkerUid> dead;  // the list of deaths

  // Of a report: the place in the transaction that it works on; else as the newest table has it,
  // else the seat.
  Rank rank_of(const Worker& worker) const;
  std::string name(const Worker& worker) const;
};

}  // namespace lockstep::coord
