// What a leader leaves on its machine for the next one there (nodes::Leader::Record), should it be
// killed: in a small file of this user's, in $XDG_RUNTIME_DIR or /tmp, which it locks while it
// lives. A run that ends in order removes it, as soon as no restart is left for which it could be
// read. A leader that is killed leaves it; if none takes it over, a later launcher of this user
// removes it. One that cannot be read, whatever is in its place, says that there was a leader: the
// new one waits for L + 1 s, and says why.
//
// Threads: one.
#pragma once

#include <chrono>
#include <string>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "nodes/leader.h"

namespace lockstep::launcher {

class LeaderRecord {
 public:
  // The next leader may come for a record so long: longer than the default of join_timeout.
  static constexpr std::chrono::hours kKept{1};

  // `node`: what makes a node the same one when its launcher is started again.
  explicit LeaderRecord(const std::string& node);

  // What the last leader of this node has left; {}: there is none. It is this one's from now on.
  // One that cannot be read is told in the log.
  nodes::Leader::Record take();
  void keep(const nodes::Leader::Record& record);
  void remove();
  // Again and again while its leader lives: its age counts from the last time.
  void touch();

  // Those of all nodes that were written or touched more than kKept ago and that nobody holds.
  static void remove_left();

 private:
  bool open(int flags, std::string& why);  // `why` it is not to be had; "": there is none
  std::string path_;
  UniqueFd file_;  // locked
  Deadline touch_at_ = Deadline::in({});
};

}  // namespace lockstep::launcher
