// What a leader leaves on its machine for the next one there (nodes::Leader::Record), should it be
// killed: in a small file of this user's, in $XDG_RUNTIME_DIR or /tmp. A run that ends in order
// removes it. Without it a new leader waits for L + 1 s, so an error is a line in the log.
//
// Threads: one.
#pragma once

#include <string>

#include "base/unique_fd.h"
#include "nodes/leader.h"

namespace lockstep::launcher {

class LeaderRecord {
 public:
  // `node`: as AloneLock's.
  explicit LeaderRecord(const std::string& node);

  nodes::Leader::Record read() const;  // {}: there is none
  void keep(const nodes::Leader::Record& record);
  void remove();

 private:
  bool open();
  std::string path_;
  UniqueFd file_;
};

}  // namespace lockstep::launcher
