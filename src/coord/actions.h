// What the coordinator wants done, in this order. The agent obeys; it decides nothing about workers
// itself.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "coord/incident.h"
#include "coord/table.h"
#include "lockstep/status.h"
#include "rundir/standstills.h"
#include "rundir/time_stop.h"

namespace lockstep::coord {

namespace action {

// Start a worker, by a ForkRequest or fork + exec; or, attached, open a place for whoever comes
// with that rank. Answer: event Forked or SpawnFailed. `rank` and
// `local_rank` are below `world_size`, and no other worker alive has them (but for one that was let
// go 2 s ago and does not end). `world_size`:
// workers wanted now, at least as many as at the first start: a run that was given no number of
// virtual workers has as many as it had workers then, and newcomers must come to the same.
struct Spawn {
  WorkerUid uid;
  Slot slot;
  Rank rank;
  LocalRank local_rank;
  int world_size = 1;
  int restart_count = 0;
  int max_restarts = 0;
  bool newcomer = false;
};
// To the worker's process group. Unknown or reaped uids are to be ignored.
struct Kill {
  WorkerUid uid;
  int signal = 0;
};
// Of attached workers, in TERM's place: it is to say `text` and to end with `code`.
struct End {
  WorkerUid uid;
  int code = 0;
  std::string text;
};
// header().dead_uid, dead_count, then ring all bells (once per list of actions, at its end).
struct AppendDead {
  WorkerUid uid;
};
// write_proposal(), then ring all bells.
struct WriteProposal {
  Table wish;
};
// The group begins: write_table() into board.table(txn), the first of a board; the proposal comes
// with it as WriteProposal.
struct WriteTable {
  Table table;
  std::uint64_t ran_ns = 0;  // by now: header().ran_ns
  bool here = true;          // else another host writes the table, and all but that is done
};
// A table has named the run's last step: RUN_DIR/stop.json, then header().stop_recorded, and ring
// all bells, since everybody waits for it. An error is event RecordsFailed.
struct RecordStop {
  rundir::TimeStop stop;
};
// RUN_DIR/standstills.json. An error is told, and that is all.
struct RecordStandstills {
  std::vector<rundir::Standstill> standstills;
};
// header().heal_donor, then heal_request; ring the donor. uid 0: nobody needs a copy.
struct NameDonor {
  WorkerUid uid;
  std::uint64_t request = 0;
};
struct Admit {
  WorkerUid uid;
  bool newcomer = false;
};
struct Refuse {
  WorkerUid uid;
  Error error;
};
// A report with a number already seen replaces the earlier one.
struct RecordIncident {
  Incident incident;
};
// All workers are gone: fresh memfd, records flushed; the recorder is opened again at the first
// table's transaction. Spawns follow.
struct RestartGroup {
  int restart_count = 0;
};
// Kill the old zygote if it lives, start another. Answer: event ZygoteReady or ZygoteLost.
struct RestartZygote {};
// Print and record the finale, write and sync all records, then header().final_recorded = 1 and
// ring all bells.
struct SetFinalRecorded {
  WorkerUid uid;  // whose finale
};
struct Reply {
  std::uint64_t request = 0;
  bool ok = false;
  std::string text;
  ErrorKind kind = ErrorKind::kUsage;  // where not ok; kUnavailable: another try makes sense
};
enum class Severity { kInfo, kWarning, kError };
struct Print {
  Severity severity = Severity::kInfo;
  std::string text;
};
// No worker is alive any more: end the launcher with this code. The last action ever.
struct Stop {
  int exit_code = 0;
};

}  // namespace action

struct Action {
  std::variant<action::Spawn, action::Kill, action::End, action::AppendDead, action::WriteProposal,
               action::WriteTable, action::NameDonor, action::Admit, action::Refuse,
               action::RecordIncident, action::RestartGroup, action::RestartZygote,
               action::RecordStop, action::RecordStandstills, action::SetFinalRecorded,
               action::Reply, action::Print, action::Stop>
      what;
  std::string reason;  // for logs and tests: why, in a few words
};

using Actions = std::vector<Action>;

}  // namespace lockstep::coord
