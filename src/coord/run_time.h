// How long a run has run, and may run.
#pragma once

#include <cstdint>

namespace lockstep::coord {

// What a worker knows of it at a start of the group; nanoseconds.
struct RunTime {
  std::uint64_t ran = 0;              // before: as its checkpoint has it
  std::uint64_t limit = 0;            // of the whole run; 0: none
  std::uint64_t stop_after_step = 0;  // recorded, and still in force; 0: none
  friend bool operator==(const RunTime&, const RunTime&) = default;
};

}  // namespace lockstep::coord
