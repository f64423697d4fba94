// Groups deaths into incidents and follows each to its end: victims within one detection window, or
// while the interrupted transaction is not committed by all survivors, are one incident. Threads:
// one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "coord/events.h"
#include "coord/incident.h"

namespace lockstep::coord {

class IncidentBook {
 public:
  explicit IncidentBook(std::uint64_t window_ns) : window_(window_ns) {}

  struct Entry {
    Incident report;
    bool replaced = false;     // the replacement budget was charged; once per incident
    bool from_outside = true;  // no victim ended by its own doing
    bool committed = false;
    std::uint64_t last_victim = 0;
  };

  // All of it: how many there have been, and those that are not over.
  struct Pages {
    std::uint64_t count = 0;
    std::vector<Entry> open = {};
  };
  const Pages& pages() const { return pages_; }
  void go_on(Pages pages) { pages_ = std::move(pages); }

  // `txn`: the newest transaction that survivors work on; none for a death that interrupted nothing
  // (a newcomer's).
  Entry& add(Victim victim, std::optional<Txn> txn, bool from_outside, std::uint64_t death_ns,
             std::uint64_t now);
  Entry* newest() { return pages_.open.empty() ? nullptr : &pages_.open.back(); }

  // `survivors`: live members. `applied`: transactions that all of them have applied. `whole`: as
  // many members as wanted. Returns the reports that have changed in a way worth writing:
  // committed, rejoined.
  std::vector<Incident> observe(std::span<const WorkerProgress> survivors, std::uint64_t applied,
                                bool whole, std::uint64_t now);
  // The group ends here: every open incident, with that rung.
  std::vector<Incident> close_all(int rung);

 private:
  std::uint64_t window_;
  Pages pages_;
};

}  // namespace lockstep::coord
