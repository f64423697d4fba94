// Who takes part in a transaction: its table, and who is dead (docs/design/protocol.md,
// "Ownership").
//
// Threads: values. Errors: none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace lockstep::coord {

inline constexpr std::uint32_t kMaxVirtualWorkers = 1024;         // V
inline constexpr std::uint32_t kMaxMembers = kMaxVirtualWorkers;  // of one table
inline constexpr std::uint32_t kMaxWorkers = 128;                 // of one host
inline constexpr std::uint32_t kMaxSlots = 2 * kMaxWorkers;       // of one host's board

using HostIndex = std::uint16_t;  // among the run's hosts

// One time that a host is in a run's tables: its index among the run's hosts, and how often it has
// entered one, from 1. All zero: the only host of a run that has one.
struct Stay {
  HostIndex host = 0;
  std::uint16_t count = 0;
  friend auto operator<=>(const Stay&, const Stay&) = default;
};

// A worker's uid is its host's stay, and a number from 1.
constexpr WorkerUid uid_of(Stay stay, std::uint32_t number) {
  return WorkerUid(std::uint64_t{stay.host} << 48 | std::uint64_t{stay.count} << 32 | number);
}
constexpr Stay stay_of(WorkerUid uid) {
  return {static_cast<std::uint16_t>(uid.value() >> 48),
          static_cast<std::uint16_t>(uid.value() >> 32)};
}
// Its number on its host, for people.
constexpr std::uint32_t number_in_host(WorkerUid uid) {
  return static_cast<std::uint32_t>(uid.value());
}
// A host's own, in a list of deaths.
constexpr WorkerUid death_of(Stay stay) { return uid_of(stay, 0); }
// It, or its host.
bool is_dead(std::span<const WorkerUid> deaths, WorkerUid uid);

struct Member {
  WorkerUid uid;
  Slot slot;
  friend bool operator==(const Member&, const Member&) = default;
};

// What the next transaction's members do at its start, besides computing, and have to know alike.
enum TableFlags : std::uint32_t {
  kNone = 0,
  kStop = 1,  // do not begin `txn`: leave in order, resumable (exit 75 or the signal's code)
  // In the proposal: the time limit is reached. The next table to be published names the last step.
  kTimeIsUp = 2,
  kMoved = 4,  // since this start members have come or gone: shares have moved
};

// A host that takes part.
struct Host {
  Stay stay;
  std::uint32_t workers = 1;  // that it was asked for, however many live
  friend bool operator==(const Host&, const Host&) = default;
};

// What a transaction consists of, besides the next one's table.
struct Parts {
  std::uint32_t items =
      0;                 // virtual workers of a step, batches of an evaluation; 0: nobody has said
  bool is_step = false;  // with sums and records; else evaluation cells
  friend bool operator==(const Parts&, const Parts&) = default;
};

struct Table {
  Txn txn;  // the transaction it is for
  Generation generation;
  std::uint32_t flags = kNone;
  std::vector<Member> members;  // in rank order, and host by host
  // The run ends after so many optimizer steps, its time limit being reached; this and all later
  // tables say so. 0: it does not.
  std::uint64_t stop_after_step = 0;
  std::vector<Host> hosts = {};  // in the order of their members; none: all are of one host
  Parts parts = {};              // so whoever has a table knows what is made under it

  bool has(WorkerUid uid) const;
  void drop_hosts_without_members();
};

}  // namespace lockstep::coord
