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

bool waits(const Worker& worker) { return worker.stage == Stage::kReady && !worker.dismissed; }

}  // namespace

void Donor::choose(const Workers& workers, const std::vector<WorkerUid>& proposed,
                   const BoardView& board, bool others, Turn& turn) {
  WorkerUid newest(0);
  for (const auto& [uid, worker] : workers)
    if (waits(worker)) newest = std::max(newest, uid);
  const bool more = newest > newest_ || (others && !others_);
  newest_ = std::max(newest_, newest);
  others_ = others;
  if (more) misses_ = 0;
  if (!others && newest == WorkerUid(0)) {
    if (uid_ != WorkerUid(0))
      turn.act(action::NameDonor{WorkerUid(0), request_}, "no newcomer waits");
    uid_ = WorkerUid(0);
    return;
  }
  const Worker* named = workers.find(uid_);
  const bool lost = named == nullptr || named->left;
  // As long as it lives it may be in the middle of its copy: two must not write the one region.
  if (!lost && (named->leaving() || named->evicted)) return;
  if (!lost && !is_due(board, turn.now)) return;
  misses_ = lost ? 0 : misses_ + 1;
  if (lost) uid_ = highest(workers, proposed);
  if (uid_ == WorkerUid(0)) return;
  asked_at_ = turn.now;
  asked_txn_ = missed_at_ = 0;
  for (const auto& [uid, worker] : workers)
    if (worker.holds_state()) asked_txn_ = std::max(asked_txn_, worker.seen.current_txn.value());
  turn.act(action::NameDonor{uid_, ++request_},
           lost ? "newcomers need the state" : "a newcomer missed its table");
}

bool Donor::is_due(const BoardView& board, std::uint64_t now) {
  std::uint64_t table_txn = 0;
  for (const Table& table : board.tables) table_txn = std::max(table_txn, table.txn.value());
  if (table_txn < asked_txn_ + 2) return false;
  if (missed_at_ == 0) missed_at_ = now;
  if (misses_ == 0) return now >= asked_at_ + retry_;
  return now >= missed_at_ + (retry_ << std::min(misses_, kMostDoublings));
}

}  // namespace lockstep::coord
