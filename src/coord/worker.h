// A worker as the coordinator knows it, and all of a host. Values. Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/ids.h"
#include "coord/events.h"
#include "coord/run_time.h"
#include "lockstep/status.h"

namespace lockstep::coord {

// In order of life.
enum class Stage {
  kSpawning,  // asked for
  kForked,    // a process
  kGreeted,   // has said Hello
  kAdmitted,  // loads its state
  kReady,     // waits for a table
  kMember,    // in a table
  kLeaving,   // dropped by a shrink; in a table until the next one
};

enum class Cause { kOwnDoing, kFromOutside, kHung, kFailedSpawn };

// How a worker was lost.
struct Death {
  Cause cause;
  std::string text;
  bool ended_well = false;  // exit 0, while the others went on
  bool by_stop_signal = false;
};

// Of a worker, what the run's keeper is told.
struct WorkerView {
  WorkerUid uid;
  Slot slot;
  int seat = 0;  // LOCAL_RANK at its start: the lowest that nobody on its host has
  Stage stage = Stage::kSpawning;
  bool newcomer = false;
  bool proposed = false;   // was in a proposal: its death belongs on the dead list
  bool dismissed = false;  // ended by us for no fault of its own
  bool refused = false;
  bool left = false;
  std::optional<Error> failure;  // its own words
  Txn next;                      // Ready
  std::uint64_t state_hash = 0;
  RunTime time;                  // the same
  bool complete = false;         // the same: nothing is left to run
  std::optional<Txn> first_txn;  // of the first table it was seen in
  WorkerProgress seen;

  bool holds_state() const { return stage == Stage::kMember || stage == Stage::kLeaving; }
  // Asked for and given up, and the zygote has not answered yet: keeps its slot until it does.
  bool is_ghost() const { return dismissed && stage == Stage::kSpawning; }
  bool leaving() const { return stage == Stage::kLeaving || dismissed; }
};

struct Worker : WorkerView {
  std::uint64_t since = 0;                // start of the stage
  bool may_leave = false;                 // was told to, by a shrink or a stop
  bool signal_answered = false;           // that of `seen`
  std::optional<std::uint64_t> going_at;  // when it left, or was dismissed
  std::optional<std::uint64_t> stopped_at;
  bool stop_told = false;  // of one that is waited for
  std::optional<std::uint64_t> closed_at;
  std::optional<std::string> evicted;  // why we kill it
  Cause evicted_for = Cause::kHung;
  WorkerVitals vitals;
  bool held = false;             // by these, something outside keeps it from running
  std::uint64_t start_told = 0;  // of a newcomer: its start had lasted so long when that was said

  // A newcomer that is not ready yet.
  bool is_on_its_way() const { return newcomer && stage < Stage::kReady; }
};

// Of one host, by uid: alive, or asked for. Iterators are a std::map's.
class Workers {
 public:
  Worker* find(WorkerUid uid) {
    const auto it = all_.find(uid);
    return it == all_.end() ? nullptr : &it->second;
  }
  const Worker* find(WorkerUid uid) const {
    const auto it = all_.find(uid);
    return it == all_.end() ? nullptr : &it->second;
  }
  Worker& at(WorkerUid uid) { return all_.at(uid); }
  const Worker& at(WorkerUid uid) const { return all_.at(uid); }

  void add(const Worker& worker) { all_.emplace(worker.uid, worker); }
  // Removes it. Nothing: there is none.
  std::optional<Worker> take(WorkerUid uid) {
    auto node = all_.extract(uid);
    return node.empty() ? std::nullopt : std::optional(std::move(node.mapped()));
  }
  template <class Is>
  void remove_if(Is is) {
    std::erase_if(all_, [&](const auto& entry) { return is(entry.second); });
  }
  void clear() { all_.clear(); }

  template <class Is>
  bool any(Is is) const {
    return std::any_of(all_.begin(), all_.end(),
                       [&](const auto& entry) { return is(entry.second); });
  }
  // Those that count towards as many as are wanted.
  std::uint32_t active() const {
    return static_cast<std::uint32_t>(std::count_if(
        all_.begin(), all_.end(), [](const auto& entry) { return !entry.second.leaving(); }));
  }
  std::size_t size() const { return all_.size(); }
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  auto rbegin() { return all_.rbegin(); }
  auto rend() { return all_.rend(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  std::map<WorkerUid, Worker> all_;
};

}  // namespace lockstep::coord
