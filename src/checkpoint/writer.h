// Saves in the background: snapshot() copies and returns, one thread hashes, writes, syncs and
// publishes. Or in two parts: copy(), and later write().
//
// At most one checkpoint is in flight. The thread starts with the first one (a fork point must find
// one thread), and the destructor waits for it: bound it by the gate's deadline. Errors: see
// snapshot() and `done`; an error never harms what is already published. Threads: one caller at a
// time.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/env.h"
#include "checkpoint/image.h"
#include "checkpoint/store.h"

namespace lockstep::checkpoint {

struct Published {
  RunCursor cursor;
  std::string path;
  std::string weights_sha256;  // of the part "model"
  std::uint64_t bytes = 0;
  std::string warning;  // published, but `last` or the retention failed
};

struct WriterOptions {
  std::string run_dir;
  // A path that leads to the run directory wherever it is moved meanwhile, instead of that one,
  // which errors name nevertheless. Empty: run_dir.
  std::string through = {};
  std::string run_identity;
  std::uint32_t virtual_workers = 0;
  std::vector<ModuleEntry> modules = {};
  unsigned keep_last = 2;  // at least 1
  // The run has gone back to an older checkpoint, or began from another directory's: what is newer
  // than one that is published is of a way that is not taken, and is removed.
  bool goes_back = false;
  // "The run directory is where it was"; called on the writer's thread before anything is made in
  // it. May be empty.
  std::function<Status()> place = {};
  // "All records below the cursor are synced"; called on the writer's thread before the final
  // rename. May be empty.
  Gate gate;
  // The outcome of each snapshot taken, on the writer's thread. May be empty.
  std::function<void(const RunCursor&, const Result<Published>&)> done;
};

enum class WhenBusy { kWait, kSkip };

class Writer {
 public:
  Writer(Env& env, WriterOptions options);
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // The tensors' bytes may change once it returns. true: taken; false: skipped, since one is being
  // written. kTimedOut: still being written at the deadline; kUsage: names or sizes.
  Result<bool> snapshot(std::span<const Part> parts, const std::string& state_json,
                        const RunCursor& cursor, std::uint64_t generation, WhenBusy when_busy,
                        Deadline deadline);

  // The first half: the tensors alone. Nothing is written until write() is called; another copy
  // takes this one's place. Results as snapshot()'s.
  Result<bool> copy(std::span<const Part> parts, WhenBusy when_busy, Deadline deadline);
  // What copy() has taken since, whose result was true.
  Status write(std::string state_json, const RunCursor& cursor, std::uint64_t generation);

  // Until nothing is in flight: the outcome of the last snapshot (ok if there was none), or
  // kTimedOut.
  Status wait(Deadline deadline);
  bool busy() const;

 private:
  Status start_thread();
  bool idle_by(std::unique_lock<std::mutex>& lock, Deadline deadline);
  void run();
  Result<Published> save();
  std::string named(std::string text) const;

  Env& env_;
  const WriterOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool in_flight_ = false;
  bool stop_ = false;
  Status last_;
  // The caller's while idle, the thread's while in flight.
  Image image_;
  Manifest manifest_;
  std::thread thread_;
};

}  // namespace lockstep::checkpoint
