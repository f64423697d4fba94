// What every host knows of the run: the run keeper (run_keeper.h) alone writes it, the host keepers
// (host_keeper.h) read it. A value; times are durations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "coord/table.h"

namespace lockstep::coord {

// Coordinator::status() has their names, in this order.
enum class Group { kStarting, kRunning, kRestarting, kFinishing, kStopping, kStopped };

// How a host stands to the run's tables.
enum class Standing {
  kForming,  // its workers come; no table has had its stay
  kHere,     // in the first table or the proposal, and so perhaps in a table
  kGoing,    // being taken out of the tables: nobody is started
  kOut,      // of the set, for good
};

// The newest transaction in which members wait for others, and how many items it has.
struct Waits {
  Txn txn;
  std::uint32_t items = 0;  // 0: nobody waits
  friend bool operator==(const Waits&, const Waits&) = default;
};

struct HostFacts {
  Stay stay;  // as it has said last
  Standing standing = Standing::kForming;
  std::uint32_t asked = 0;   // workers, at the first start
  std::uint32_t wanted = 0;  // then, or by the last scale
  std::uint32_t target = 0;  // the same, less those that died and are not replaced
  std::uint64_t heard = 0;   // so many of its reports: what they come to is in the facts
  bool goes_on = false;      // one of its workers holds the state, and runs
  Waits waits;               // of its members
  // However often a host says that one is gone.
  void want_one_less() { target -= target > 0 ? 1 : 0; }
  friend bool operator==(const HostFacts&, const HostFacts&) = default;
};

struct RunFacts {
  Group group = Group::kStarting;
  bool elastic = true;                // the program runs its steps through Lockstep
  std::uint32_t virtual_workers = 0;  // 0: not yet known
  std::vector<HostFacts> hosts;       // by index (Stay::host)
  int restarts = 0;                   // of the group, so far
  int replacements_left = 0;          // for people
  bool in_order = false;              // stopping: those that hold the state leave at the next table
  int stop_code = 0;                  // of a stop
  std::string stop_reason;

  bool is_stopping() const { return group == Group::kStopping || group == Group::kStopped; }
  // Steps are done, be it the last one before a stop in order.
  bool is_training() const { return group == Group::kRunning || in_order; }
  bool is_ending() const { return group == Group::kFinishing || is_stopping(); }

  // Of all hosts.
  std::uint32_t asked() const { return sum(&HostFacts::asked); }
  std::uint32_t target() const { return sum(&HostFacts::target); }
  bool any(auto is) const { return std::any_of(hosts.begin(), hosts.end(), is); }
  friend bool operator==(const RunFacts&, const RunFacts&) = default;

 private:
  std::uint32_t sum(std::uint32_t HostFacts::*what) const {
    std::uint32_t all = 0;
    for (const HostFacts& host : hosts) all += host.*what;
    return all;
  }
};

// At the start of a run, of which so many workers are asked for on each host. The only host of a
// run has no stay.
RunFacts first_facts(const std::vector<std::uint32_t>& workers);

}  // namespace lockstep::coord
