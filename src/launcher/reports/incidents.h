// Incidents as they are told: a file each in the run directory, as soon as there is one, and one
// table on the console when the incident is settled, or after 3 s without that.
//
// Threads: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "coord/incident.h"

namespace lockstep::launcher {

class Incidents {
 public:
  using Write = std::function<void(const coord::Incident&)>;  // its file
  using Print = std::function<void(const std::string&)>;      // a table
  explicit Incidents(Print print) : print_(std::move(print)) {}

  // A report with a number already seen replaces the earlier one.
  void record(const coord::Incident& incident);
  // From now on there is a directory; what was recorded before comes first.
  void write_by(Write write);
  std::size_t count() const { return open_.size() + printed_.size(); }
  // Those that are due; or all.
  void print(bool all);

 private:
  struct Open {
    coord::Incident incident;
    Deadline print_at;
  };
  Print print_;
  Write write_;                         // none: the directory is not known yet
  std::vector<coord::Incident> held_;   // until it is
  std::map<std::uint64_t, Open> open_;  // not printed yet
  std::set<std::uint64_t> printed_;
};

}  // namespace lockstep::launcher
