// What a leader leaves on its machine for the next one there (nodes::Leader::Record), should it be
// killed: in a small file of this user's in /tmp, which it locks while it lives. Neither the folder
// nor the name depends on who starts it, or from where: a login that ends, cron and systemd have
// other environments, and an endpoint has several spellings. A run that ends in order removes it,
// as soon as no restart is left for which it could be read. A leader that is killed leaves it; if
// none takes it over, a later launcher of this user removes it. One that cannot be read, whatever
// is in its place, says that there was a leader: the new one waits for L + 1 s, and says why.
//
// Threads: one.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "nodes/leader.h"

namespace lockstep::launcher {

class LeaderRecord {
 public:
  // The next leader may come for a record so long: longer than the default of join_timeout.
  static constexpr std::chrono::hours kKept{1};

  static constexpr const char* kFolder = "/tmp";  // on every system, for all users, until it boots

  // `leader`: what makes it the same one when its launcher is started again.
  // `command`: the program and its arguments. Of another one's record the attempts are not gone on
  // from; what they have begun is waited for all the same.
  LeaderRecord(const std::string& leader, const std::vector<std::string>& command,
               std::string folder = kFolder);

  // What the last leader here has left; {}: there is none. It is this one's from now on.
  // What follows from it is told in the log.
  nodes::Leader::Record take(int max_restarts);
  // Whether it has left anything; that stays as it is. Told in the log.
  bool is_there() const;
  // Where that fails it is told in the log, once.
  void keep(const nodes::Leader::Record& record);
  void remove();
  // What the last leader here has left, if it is dead and of the same command: another one has gone
  // on, to the run's end.
  void remove_what_is_left();
  // Again and again while its leader lives: its age counts from the last time.
  void touch();

  // Those of all leaders that were written or touched more than kKept ago and that nobody holds.
  static void remove_left(const std::string& folder = kFolder);

 private:
  bool open(int flags, std::string& why);  // `why` it is not to be had; "": there is none
  std::string folder_, command_, path_;
  UniqueFd file_;  // locked
  Deadline touch_at_ = Deadline::in({});
  bool warned_ = false;
};

}  // namespace lockstep::launcher
