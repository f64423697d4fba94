// The run's records as the agent keeps them. Whatever touches their files is done on one thread
// beside the loop, one thing after the other; syncs for checkpoints on another one beside that. So
// a slow disk delays a checkpoint and nothing else, and one that stands still holds up the workers
// once the board has no room for more lines, but never the loop.
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

#include "base/deadline.h"
#include "base/env.h"
#include "base/loop.h"
#include "coord/recorder.h"
#include "launcher/background.h"
#include "launcher/linked/shared_board.h"
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
  // Beside the loop, between other things that are done to the files, which have all below `upto`
  // by this launcher's doing.
  using Job = std::function<Status(Txn upto)>;
  using Done = Background::Done;

  // `env` lives as long as a job may hang, `loop` and `syncs` as long as the object.
  Records(Env& env, Loop& loop, Background& syncs, Told told);

  // From transaction `next` on. The workers may begin before the files are there.
  void open(const std::string& run_dir, const std::shared_ptr<const SharedBoard>& board, Txn next);
  bool is_open() const { return is_open_; }
  bool has_files() const { return recorder_ != nullptr; }
  // The group is gone: whoever waits for sync() is, too. What it has committed is written.
  void close();

  // Writes what has been committed, once pause() is over, and syncs what is due.
  void pump();
  // Once all transactions below `txn` are written, and synced after that, told_.synced follows.
  void sync(WorkerUid uid, Txn txn);
  // For the run's end: writes and syncs everything, and then does `last`, if any.
  void finish(Background::Job last, Done done);
  void beside(Job job, Done done);
  // Until nothing is left to be done beside the loop; false: the deadline came first. For a second
  // at most also until it is known which records are missing.
  bool wait(Deadline deadline);
  // No more records after this error.
  void fail(const Error& error);
  const std::optional<Error>& error() const { return error_; }

  // As of what was written last.
  const coord::Recorder::Recorded& recorded() const { return now_.recorded; }
  Txn next() const { return now_.next; }  // 0: not open
  // Look again after this time: often enough that no worker waits for room in the ring.
  std::chrono::nanoseconds pause() const;

 private:
  struct Wanted {
    WorkerUid uid;
    Txn txn;
    bool begun = false;  // the sync that is under way began after all of it was written
  };
  // What has been written, and is to be told on the loop.
  struct Written {
    Txn next{0};
    coord::Recorder::Recorded recorded;
    std::string lines;
  };
  struct Files;  // of the thread beside the loop
  void write(std::function<Status(Files&)> job, Done done);
  void look_for_missing(Txn next);
  void tell_if_slow();
  void begin_pump();
  void end_pump(const Status& status);
  void begin_sync();
  void end_sync(const Status& status);
  void answer_all(const Error& error);

  Env& env_;
  Told told_;
  std::shared_ptr<coord::Recorder> recorder_;  // once the files are open; a sync holds it, too
  bool is_open_ = false;
  std::string run_dir_;
  int group_ = 0;          // that the board is of
  coord::BoardPlan plan_;  // of the board
  Written now_;            // without lines
  std::vector<Wanted> wanted_;
  bool pumping_ = false, again_ = false, syncing_ = false;
  bool told_slow_ = false;
  std::optional<Error> error_;
  std::chrono::milliseconds pause_{20};
  Deadline pump_at_ = Deadline::in({});
  Background& syncs_;
  const std::shared_ptr<Files> files_;
  Background files_thread_;
  Background scan_;  // no step waits for it
};

}  // namespace lockstep::launcher
