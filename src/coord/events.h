// What the coordinator is told. Plain values; the time comes beside them (Coordinator::handle).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "coord/board.h"
#include "coord/exit_status.h"
#include "coord/run_time.h"
#include "coord/table.h"
#include "lockstep/status.h"
#include "rundir/standstills.h"

namespace lockstep::coord {

// One worker's words on the board. All zero while it has not claimed its slot.
struct WorkerProgress {
  WorkerUid uid;
  Phase phase = Phase::kIdle;
  std::uint64_t progress = 0;
  Txn current_txn;
  std::uint64_t epoch = 0, epoch_step = 0, item = 0;  // of current_txn
  std::uint32_t items = 0;                            // that current_txn has, all members together
  std::uint64_t applied = 0;                          // transactions its state includes
  std::uint64_t ready_txn = 0;
  std::uint64_t abort_seen_ns = 0, regrouped_ns = 0, resumed_ns = 0, committed_ns = 0,
                fault_fired_ns = 0;
  int signal = 0;  // that came to it and asks for an end; 0: none
};

// What the system tells of a worker's process. Nanoseconds, since it was first looked at, of those
// times in which it did not get any further on the board.
struct WorkerVitals {
  WorkerUid uid;
  std::uint64_t ran_ns = 0;  // on CPUs, all its threads together
  // Something outside the program kept it from running: a stop, a debugger, a frozen control group,
  // other processes on its CPUs, output that nobody reads.
  std::uint64_t excused_ns = 0;
};

namespace event {

struct Start {};  // once, first
// The worker of a Spawn is there. With start method exec the agent says so itself.
struct Forked {
  WorkerUid uid;
  int pid = 0;
};
struct SpawnFailed {
  WorkerUid uid;
  std::string reason;
};
struct Hello {
  WorkerUid uid;
};
struct Described {
  WorkerUid uid;
  std::uint32_t virtual_workers = 1;
  bool elastic = true;
  // Why it cannot take part: first_difference(), the run directory's lock, a plan beyond a limit.
  std::optional<Error> refusal;
  std::uint64_t program = 0;  // digest_of() what it is about to run; 0: nobody compares it
  std::string what = {};      // bytes_of() it, from one of a host's workers
};
struct Ready {
  WorkerUid uid;
  Txn next;
  std::uint64_t state_hash = 0;
  RunTime time = {};
  bool complete = false;  // nothing is left to run
};
// Reaped. Feed a fresh Progress just before, the dead worker's slot included.
struct Exited {
  WorkerUid uid;
  ExitStatus status;
  bool has_error_file = false;  // it has written what went wrong
};
// waitid with WSTOPPED, WCONTINUED.
struct Stopped {
  WorkerUid uid;
};
struct Continued {
  WorkerUid uid;
};
// The board, each tick: all workers alive, and the header's tables as far as readable, oldest
// first.
struct Progress {
  std::vector<WorkerProgress> workers;
  std::vector<Table> tables;
};
// Several times a second while there is a worker. `zygote`: of the process that forks workers,
// while a fork is awaited; uid 0.
struct Vitals {
  std::vector<WorkerVitals> workers;
  WorkerVitals zygote;
};
// What earlier launches of the run have learnt (HangWatch::learnt()).
struct Remembered {
  std::vector<rundir::Standstill> standstills;
};
struct Scale {
  std::uint64_t request = 0;  // returned in action::Reply
  std::uint32_t workers = 0;
};
// message::Fail
struct Failed {
  WorkerUid uid;
  Error error;
};
struct Finished {
  WorkerUid uid;
};
// The agent could not write the run's records or the finale.
struct RecordsFailed {
  Error error;
};
struct Left {
  WorkerUid uid;
  Txn applied;
};
// Its socket is closed: it is about to exit, or has become something else.
struct Closed {
  WorkerUid uid;
};
// Attached: the process that had started the launcher has ended.
struct StarterGone {};
struct ZygoteReady {};
struct ZygoteLost {
  ExitStatus status;
  // Why it could not even be started; then `status` is the launcher's.
  std::string not_started = {};
};
struct Signal {
  int number = 0;  // to the launcher: one of Config::stop_signals
  // Who asks for it in a signal's place: "'lockstep stop' on node3"; empty: it is a signal.
  std::string by = {};
};
struct Tick {};

}  // namespace event

using Event =
    std::variant<event::Start, event::Forked, event::SpawnFailed, event::Hello, event::Described,
                 event::Ready, event::Exited, event::Stopped, event::Continued, event::Progress,
                 event::Vitals, event::Remembered, event::Scale, event::Failed, event::Finished,
                 event::RecordsFailed, event::Left, event::Closed, event::StarterGone,
                 event::ZygoteReady, event::ZygoteLost, event::Signal, event::Tick>;

// Reads the event from the board. `workers`: those alive and those just reaped, with their slots.
event::Progress observe(const Board& board, const std::vector<Member>& workers);

}  // namespace lockstep::coord
