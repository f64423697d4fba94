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

// One time that a host is in a run's tables: its index among the run's hosts, and how often it has
// entered one, from 1. All zero: the only host of a run that has one.
struct Stay {
  std::uint16_t host = 0;
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
// A host's own, in a list of deaths.
constexpr WorkerUid death_of(Stay stay) { return uid_of(stay, 0); }
// It, or its host.
bool is_dead(std::span<const WorkerUid> deaths, WorkerUid uid);

struct Member {
  WorkerUid uid;
  Slot slot;
  friend bool operator==(const Member&, const Member&) = default;
};

// What the next transaction's members do at its start, besides computing.
enum TableFlags : std::uint32_t {
  kNone = 0,
  kStop = 1,  // do not begin `txn`: leave in order, resumable (exit 75 or the signal's code)
  // In the proposal: the time limit is reached. The next table to be published names the last step.
  kTimeIsUp = 2,
};

// A host that takes part.
struct Host {
  Stay stay;
  std::uint32_t workers = 1;  // that it was asked for, however many live
  friend bool operator==(const Host&, const Host&) = default;
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

  bool has(WorkerUid uid) const;
};

}  // namespace lockstep::coord
