// One failure from death to recovery, as told to people: who, why, which transaction, and the time
// of each phase. Threads: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace lockstep::coord {

struct Victim {
  WorkerUid uid;
  Rank rank;               // when it died; of a newcomer, the one it was to have
  std::string cause;       // "SIGKILL", "exit 7", "stopped for 1.0 s", "hung in backward for 5.2 s"
  std::string error = {};  // its own last words, told when it said them
  bool ended_well = false;  // exit 0, while the others went on
  friend bool operator==(const Victim&, const Victim&) = default;
};

// CLOCK_MONOTONIC, nanoseconds; 0: not known or not (yet) reached. Of several workers the last
// one's time counts, except where said.
struct IncidentPhases {
  std::uint64_t death = 0;      // 0 unless the fault was stamped (fault injection)
  std::uint64_t noticed = 0;    // by the agent; of a stop or a hang: the end of the grace
  std::uint64_t aborted = 0;    // the survivors have seen the dead list grow
  std::uint64_t regrouped = 0;  // the survivors know their new shares
  std::uint64_t resumed = 0;    // the first adopted share is begun
  std::uint64_t committed = 0;  // the interrupted transaction is applied by all survivors
  std::uint64_t rejoined = 0;   // all replacements are in a table
  friend bool operator==(const IncidentPhases&, const IncidentPhases&) = default;
};

struct Incident {
  std::uint64_t number = 0;  // from 1
  int rung = 1;              // of the recovery ladder: 1 go on, 3 restart of the group, 4 stop
  std::vector<Victim> victims;
  Txn txn;  // the interrupted one: the newest that a survivor was working on
  IncidentPhases phases;
  friend bool operator==(const Incident&, const Incident&) = default;
};

// One JSON object (schema version 1), phases also in ms since `death`, or since `noticed` where the
// death has no stamp. `wall_time_s`: seconds since 1970 of this report.
std::string to_json(const Incident& incident, double wall_time_s);

}  // namespace lockstep::coord
