// What a member says of each transaction that it has committed: on the board, for the agent that
// records it or, alone, for a recorder of its own.
//
// Ownership: refers to the session and its memory. Errors: kUsage for lines that are too long;
// kDisk, kTimedOut. Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "coord/board.h"
#include "coord/progress.h"
#include "coord/recorder.h"
#include "transaction/program.h"
#include "worker/session.h"

namespace lockstep::transaction {

class CommitLog {
 public:
  CommitLog(worker::Session& session, coord::Board board) : session_(session), board_(board) {}

  // Alone, and for nothing launched: the records, from `next` on, and for people how the run is
  // getting on (coord/progress.h; the environment's LOCKSTEP_PROGRESS is as --progress of `lockstep
  // run`). `total_steps`: 0: not known. `limit_ns`: of run time; 0: none.
  Status open(const std::string& run_dir, Txn next, std::uint64_t total_steps,
              std::uint64_t limit_ns);
  // Until enough of what is committed is recorded (Board::has_room).
  Status wait_for_room(Txn txn);
  // Before the commit is announced.
  Status write(const Program& program, Txn txn, const Lines& lines);
  // After it. Alone: records, now and then.
  Status committed(const Program& program, Txn txn, const Lines& lines);
  // Alone: what is committed is written and synced, so that no checkpoint gets ahead of its
  // records. (Launched, the agent does it.)
  Status record_all();

 private:
  void tell_progress(std::uint64_t now);
  coord::WorkerSlot& slot() const { return board_.slot(session_.identity().slot); }

  worker::Session& session_;
  coord::Board board_;
  // Alone only.
  std::unique_ptr<coord::Recorder> recorder_;
  std::optional<coord::Progress> progress_;
  std::uint64_t total_steps_ = 0, limit_ns_ = 0;
};

}  // namespace lockstep::transaction
