#include "coord/donor.h"

#include <algorithm>

namespace lockstep::coord {
namespace {

// The highest rank: the first one has the table and the checkpoints to write.
WorkerUid highest(const Workers& workers, const std::vector<WorkerUid>& proposed) {
  WorkerUid found(0);
  for (const WorkerUid uid : proposed) {
    const Worker* worker = workers.find(uid);
    if (worker != nullptr && worker->stage == Stage::kMember && !worker->dismissed &&
        !worker->evicted && !worker->stopped_at)
      found = uid;
  }
  return found;
}

}  // namespace

void Donor::choose(const Workers& workers, const std::vector<WorkerUid>& proposed,
                   const BoardView& board, Turn& turn) {
  const bool waits = workers.any(
      [](const Worker& worker) { return worker.stage == Stage::kReady && !worker.dismissed; });
  if (!waits) {
    if (uid_ != WorkerUid(0))
      turn.act(action::NameDonor{WorkerUid(0), request_}, "no newcomer waits");
    uid_ = WorkerUid(0);
    return;
  }
  const Worker* named = workers.find(uid_);
  const bool lost = named == nullptr || named->left;
  // As long as it lives it may be in the middle of its copy: two must not write the one region.
  if (!lost && (named->leaving() || named->evicted)) return;
  if (!lost && !has_missed(board, turn.now)) return;
  if (lost) uid_ = highest(workers, proposed);
  if (uid_ == WorkerUid(0)) return;
  asked_at_ = turn.now;
  asked_txn_ = 0;
  for (const auto& [uid, worker] : workers)
    if (worker.holds_state()) asked_txn_ = std::max(asked_txn_, worker.seen.current_txn.value());
  turn.act(action::NameDonor{uid_, ++request_},
           lost ? "newcomers need the state" : "a newcomer missed its table");
}

bool Donor::has_missed(const BoardView& board, std::uint64_t now) const {
  std::uint64_t table_txn = 0;
  for (const Table& table : board.tables) table_txn = std::max(table_txn, table.txn.value());
  return table_txn >= asked_txn_ + 2 && now >= asked_at_ + retry_;
}

}  // namespace lockstep::coord
