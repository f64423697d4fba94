// The run's records as the agent keeps them: written on the loop, synced beside it, so that a slow
// disk delays a checkpoint and nothing else.
//
// Errors: kDisk, kBadData; the first one stays, and is told once. Threads: the loop's.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "coord/recorder.h"
#include "launcher/background.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

class Records {
 public:
  struct Told {
    std::function<void(std::string_view)> lines;  // for standard output, each once
    std::function<void(const Error&)> failed;
    // The answer to sync().
    std::function<void(WorkerUid, Txn, const std::optional<Error>&)> synced;
  };

  // `env` must outlive the object, which outlives `background`: its jobs use the object.
  Records(Env& env, Background& background, Told told)
      : env_(env), told_(std::move(told)), background_(background) {}

  // From transaction `next` on.
  Status open(const std::string& run_dir, const coord::Board& board, Txn next);
  bool is_open() const { return recorder_ != nullptr; }
  // The group is gone: whoever waits for sync() is, too.
  void close();

  // Writes what has been committed, and begins to sync what is due.
  void pump();
  // Once all transactions below `txn` are written, and synced after that, told_.synced follows.
  void sync(WorkerUid uid, Txn txn);
  // Writes and syncs at once, for the run's end.
  Status finish();
  // No more records after this error.
  void fail(const Error& error);
  bool failed() const { return error_.has_value(); }

  // Only while is_open().
  const coord::Recorder::Recorded& recorded() const { return recorder_->recorded(); }
  Txn next() const { return recorder_ != nullptr ? recorder_->next() : Txn(0); }
  // All below it are in the files, by this launcher's doing; also once it is closed.
  Txn upto() const { return recorder_ != nullptr ? recorder_->next() : here_.to; }
  // Look again after this time: often enough that no worker waits for room in the ring.
  std::chrono::milliseconds pause() const { return pause_; }

 private:
  struct Wanted {
    WorkerUid uid;
    Txn txn;
    bool begun = false;  // the sync that is under way began after all of it was written
  };
  void begin_sync();
  void end_sync(const Status& status);
  void answer_all(const Error& error);

  Env& env_;
  Told told_;
  std::shared_ptr<coord::Recorder> recorder_;  // a sync under way holds it, too
  std::uint32_t ring_ = 1;                     // of the board
  coord::Recorder::Here here_;                 // by earlier groups of this launcher's
  std::vector<Wanted> wanted_;
  bool syncing_ = false;
  std::optional<Error> error_;
  std::chrono::milliseconds pause_{20};
  Background& background_;
};

}  // namespace lockstep::launcher
