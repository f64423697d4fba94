// The workers that the agent has now, each from the wish to start it until it is reaped.
//
// Ownership: of their descriptors; whoever watches one takes it from the loop first. References
// stay good until their worker is erased. Threads: the loop's.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/ids.h"
#include "base/unique_fd.h"
#include "coord/actions.h"
#include "coord/exit_status.h"
#include "coord/table.h"
#include "launcher/processes/vitals.h"

namespace lockstep::launcher {

struct Worker {
  WorkerUid uid;
  Slot slot;
  Rank rank;
  LocalRank local_rank;
  pid_t pid = -1;                                   // -1: not forked yet
  int pending_kill = 0;                             // signal for the moment when the pid is known
  std::optional<Deadline> gone_by;                  // once SIGKILL is sent
  std::uint64_t seen_progress = 0, seen_phase = 0;  // on the board, at the last look at it
  Vitals vitals;
  UniqueFd control;
  std::string error_file;         // as the worker was told; empty: none
  bool error_file_stays = false;  // it is in the log directory

  // Of one that was started by hand, and is no child of ours.
  UniqueFd process;   // pidfd
  UniqueFd lifeline;  // on which it is told to end
  UniqueFd out, err;  // its own
  bool stopped = false;
  bool described = false;                        // and not refused for it
  std::optional<Deadline> end_by;                // it was told to end
  std::optional<coord::ExitStatus> last_report;  // by its own last word
};

class Workers {
 public:
  // Without a process yet.
  Worker& add(const coord::action::Spawn& spawn);
  void erase(WorkerUid uid) { workers_.erase(uid); }

  // nullptr: none.
  Worker* find(WorkerUid uid);
  Worker* of_process(pid_t pid);
  Worker* of_rank(Rank rank);
  const Worker& at(WorkerUid uid) const { return workers_.at(uid); }

  std::vector<Worker*> unforked();
  // Those whose slots of the board tell something: with a process, and `dead`, which had one.
  std::vector<coord::Member> members(const Worker* dead) const;

  // In order of their uids.
  auto begin() { return workers_.begin(); }
  auto end() { return workers_.end(); }
  auto begin() const { return workers_.begin(); }
  auto end() const { return workers_.end(); }

 private:
  std::map<WorkerUid, Worker> workers_;
};

}  // namespace lockstep::launcher
