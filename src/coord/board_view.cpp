#include "coord/board_view.h"

#include "coord/words.h"

namespace lockstep::coord {

Rank BoardView::rank_of(const Worker& worker) const {
  Rank rank(worker.seat);
  for (const Table& table : tables)
    for (std::size_t i = 0; i < table.members.size(); ++i) {
      if (table.members[i].uid != worker.uid) continue;
      rank = Rank(static_cast<int>(i));
      if (table.txn == worker.seen.current_txn) return rank;
    }
  return rank;
}

std::string BoardView::name(const Worker& worker) const {
  return worker_name(rank_of(worker).value(), worker.uid.value());
}

}  // namespace lockstep::coord
