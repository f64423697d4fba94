// The hosts of a run as its keeper knows them: what each has told last, and what the run has made
// of it. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "coord/host_view.h"
#include "coord/run_facts.h"
#include "coord/run_state.h"

namespace lockstep::coord {

struct RunHost : HostState {
  HostView view;
  std::uint64_t ordered = 0;  // the number of the last order to it that some may not have obeyed
  std::uint64_t applied = 0;  // transactions, by workers of this stay: its board has these
  std::optional<std::uint64_t> orphaned_since;  // nobody of it could finish the transaction
  std::optional<std::pair<int, std::uint64_t>> last_signal;  // to its launcher, and when

  // What it has told comes after all that it was to do.
  bool is_current() const { return view.obeyed >= ordered; }
  bool is_of_this_board() const { return view.obeyed >= begun; }
  // With that order a fresh board: nothing of the old one counts.
  void begin(std::uint64_t order) {
    begun = order;
    view.workers.clear();
    ranks.clear();
    stop_known = 0;
    finished = cannot_grow = was_member = off_tables = comes = has_come = false;
    orphaned_since.reset();
    applied = dead_applied = 0;
  }
};

class RunHosts {
 public:
  explicit RunHosts(std::size_t count) : all_(count) {}

  RunHost& operator[](std::size_t host) { return all_[host]; }
  const RunHost& operator[](std::size_t host) const { return all_[host]; }
  std::size_t size() const { return all_.size(); }
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }

  // Of all hosts' workers.
  template <class Visit>
  void each(Visit visit) const {
    for (const RunHost& host : all_)
      for (const WorkerView& worker : host.view.workers) visit(worker);
  }
  template <class Is>
  bool any(Is is) const {
    for (const RunHost& host : all_)
      if (host.view.any(is)) return true;
    return false;
  }

 private:
  std::vector<RunHost> all_;
};

// Workers over hosts as they were asked for at the first start: each has one, and each further one
// goes where there are fewest for that. Precondition: as many workers as hosts, and some asked for.
std::vector<std::uint32_t> shares_of(std::uint32_t workers,
                                     const std::vector<std::uint32_t>& asked);

}  // namespace lockstep::coord
