// A training process's side of the launcher: the fork point, the environment it gets, and its talk
// with the agent. No libtorch here. docs/design/launching.md has the life of a worker.
//
// Five ways to live:
//   zygote   started by `lockstep run` for programs that link Lockstep (found by the ELF note that
//            this room emits): main() runs up to open(), which then serves fork requests and never
//            returns; open() returns in the forked workers only
//   worker   of a program started by fork + exec (--start-method exec)
//   spawned  forked from the zygote of lockstep::spawn() (worker/spawn.h)
//   by hand  one command for each rank: attaches to the launcher that the first of them has started
//            (worker/attach.h)
//   alone    without the launcher: one process, launched() is false, memory() is anonymous
//
// Errors: kUsage for a second thread at open() (its name and id are told); kUnavailable when the
// agent is gone or too old.
// Threads: open() from the main thread with no other alive; later calls from any thread, serialised
// inside.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/unique_fd.h"
#include "coord/board.h"
#include "coord/run_time.h"
#include "lockstep/context.h"
#include "lockstep/status.h"

namespace lockstep::worker {

struct Identity {
  WorkerUid uid{1};
  Slot slot{0};
  Rank rank{0};  // at the start; membership may change
  LocalRank local_rank{0};
  int world_size = 1;  // asked for at the first start, or now if that is more; rank is below it
  int restart_count = 0;
  int max_restarts = 0;
  bool newcomer = false;  // others are training already: heal from a live peer
  std::string run_id = "none";
};

// What this worker is going to run. Must be equal in all workers of a run, except `parameters`'
// text, which is compared line by line so that the first difference can be named.
struct Description {
  std::string run_dir;     // absolute; the run's first worker makes it
  std::string manifest;    // canonical JSON of everything that decides the arithmetic
  std::string parameters;  // one line per parameter: name, shape, dtype
  coord::BoardPlan board;
  std::uint32_t virtual_workers = 1;
  std::uint64_t total_txns = 0;   // transactions of the whole run; 0: unknown
  std::uint64_t total_steps = 0;  // its optimizer steps, for people; 0: unknown
  bool elastic = true;  // false: own loop without steps; a death restarts the group (rung 3)
};

// The agent's answer to a Description.
struct Admission {
  bool newcomer = false;      // heal; otherwise load the newest checkpoint or start from the seed
  bool checkpointed = false;  // since the launcher's start: a restarted group goes on from there
  bool begun = false;         // since then a group had begun: what it has recorded is this run's
  UniqueFd run_lock;  // descriptor of the run directory's flock; keep it open while writing there
};

// What the run ends with.
struct Finale {
  std::string console;  // lines for standard output, last line the weights' hash
  std::string summary;  // JSON for the agent's records
};

class Session {
 public:
  virtual ~Session() = default;

  // The fork point. Returns in workers (and alone); in the zygote it serves until the agent closes
  // its socket, then _exit(0).
  // `rendezvous`: of a program that may have been started by hand (lockstep/context.h).
  static Result<std::unique_ptr<Session>> open(
      const std::optional<Rendezvous>& rendezvous = std::nullopt);

  // The same in the zygote of lockstep::spawn(), which has its end of the agent's socket.
  static Result<std::unique_ptr<Session>> serve(UniqueFd agent);

  virtual bool launched() const = 0;
  virtual const Identity& identity() const = 0;
  // The program has been told identity().world_size, and may depend on it. Any thread.
  void note_world_size() { world_size_noted_.store(true, std::memory_order_relaxed); }
  bool world_size_was_asked() const { return world_size_noted_.load(std::memory_order_relaxed); }
  // The board's first byte, and its size; sparse, zero at first.
  virtual std::byte* memory() const = 0;
  virtual std::uint64_t memory_bytes() const { return coord::kBoardBytes; }

  // kUsage once the program has its run: each has one.
  Status check_first_run() const;
  // First message. Waits for the agent's answer (which may wait up to 5 s for the run directory's
  // lock). kUsage the second time, see check_first_run().
  Result<Admission> describe(const Description& description);
  // State is loaded (first start: that of `next`'s start; newcomer: nothing yet, ready to heal).
  // `state_hash` must be equal in all workers of a first start. Members then find their table on
  // the board, newcomers the donor's copy. `time`: of the run, at a start.
  // `complete`: nothing is left to run; started by hand, it then waits for no rank that has not
  // come.
  virtual Status ready(Txn next, std::uint64_t state_hash, const coord::RunTime& time = {},
                       bool complete = false) = 0;
  // Alone: what the agent does by itself. Looks at the time before a table is published; and
  // records the stop that a table has named. Launched: nothing, header().stop_recorded says when.
  virtual void look_at_time() {}
  virtual Status record_stop(std::uint64_t) { return {}; }
  // Returns once all records of transactions below `txn` are written and synced by the agent.
  virtual Status sync_records(Txn txn, Deadline deadline) = 0;
  // A checkpoint with cursor `txn` is published.
  virtual Status checkpoint_published(Txn txn) = 0;
  virtual Status checkpoint_failed(Txn txn, const Error& error) = 0;
  // This worker's own error, for the agent's report; then the process ends with
  // exit_code(error.kind).
  virtual Status fail(const Error& error) = 0;
  // Whether the agent tells this worker's errors where its own standard error is.
  virtual bool is_told_by_agent() const = 0;
  // It takes part in no transactions, or in none any more: signals that ask for an end do what they
  // do by default again. Returns one that has come; 0: none.
  virtual int release_signals() { return 0; }
  // The program has come to its end by itself, without an error; the process is about to end.
  virtual void done() = 0;
  // Orderly leave after a shrink or stop.
  virtual Status leave(Txn applied) = 0;
  // Final checkpoint is published: the agent prints and records `finale` once, then sets
  // header().final_recorded.
  virtual Status finish(const Finale& finale) = 0;

 protected:
  virtual Result<Admission> introduce(const Description& description) = 0;

 private:
  bool described_ = false;
  std::atomic<bool> world_size_noted_ = false;
};

}  // namespace lockstep::worker
