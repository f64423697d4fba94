// What workers have started and left behind: data loaders, Python's resource tracker, uploads.
// After a worker's end they have a moment to end by themselves, 5 s after a good end and 1 s after
// another; who is still there gets TERM, and KILL a second later. The run goes on meanwhile.
//
// Another attempt of a plain program does not begin beside them (sweep()): a worker may be a script
// around the program that computes, which may have a process group or session of its own.
//
// Daemons, those with a session of their own, serve the others, and clean up after them: they have
// 3 s more from the others' end on (torch_shm_manager takes 2 s to unlink what is in /dev/shm).
// All of it is over 6 s after the first TERM, whoever starts further ones meanwhile.
//
// No number is signalled that may be another process's by now: a group's is taken as long as
// somebody is in it, and a process's start is looked at. Threads: the loop's.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "launcher/processes/process_tree.h"

namespace lockstep::launcher {

class Helpers {
 public:
  // Before the first worker: children that this process has by then are nobody's helpers. The shell
  // that executed the launcher may have started them (`lockstep run … > >(tee log)`).
  void leave_alone_who_is_there();
  bool was_there(pid_t process) const;
  // In the group of a worker that has been reaped; it led that group, or has left nothing there.
  // -1: one without a group of its own, whose helpers are seen at the end.
  void left_by(pid_t worker, bool ended_well);
  // At a restart of the group, outside of those groups too: every descendant but those that
  // `is_kept` holds of, and what these have.
  void left_by_all(const std::function<bool(pid_t)>& is_kept);
  // When all workers are gone, again and again until it is false: nothing is left of what they have
  // started, in whatever group or session. Every descendant but those that `is_kept` holds of gets
  // TERM, and KILL 0.5 s after the first call. Not torch_shm_manager, which computes nothing and
  // unlinks shared memory 2 s after its clients' end. What does not even end on KILL is told of,
  // and left.
  bool sweep(const std::function<bool(pid_t)>& is_kept);
  // Signals those whose time has come.
  void look();
  // When look() will have something to do; nothing: not as far as it is known.
  std::optional<Deadline> next() const;

  // The run's end, again and again until no child is left: signals those of `children` whose time
  // has come, all of them if it is to be `at_once`. False: those that are left do not even end on
  // KILL.
  bool end(const std::vector<pid_t>& children, bool at_once);
  // When the time of those is over that are no daemons.
  Deadline until() const { return until_; }

 private:
  struct Left {
    pid_t pid = 0;                       // a process, or the leader of a group
    std::optional<std::uint64_t> start;  // of the process; nothing: the leader is gone
    Deadline due = Deadline::in({});
    bool told = false;  // it has got TERM
  };
  static bool signal(const Left& left, int number);  // false: nobody is there any more
  void add(pid_t pid, std::optional<std::uint64_t> start, Deadline due);

  bool is_daemon(pid_t process) const;
  std::vector<pid_t> descendants(const std::function<bool(pid_t)>& is_left_out) const;

  std::vector<KnownProcess> was_there_;
  std::vector<Left> left_;
  std::set<pid_t> workers_;  // that have ended; each led a session of this number
  Deadline until_ = Deadline::in({}), daemons_until_ = Deadline::in({});
  std::map<pid_t, Deadline> told_;      // by end(): have got TERM; when KILL is due
  std::map<pid_t, Deadline> killed_;    // the same with KILL; when that has had no effect
  std::optional<Deadline> last_;        // from then on KILL comes without TERM
  std::optional<Deadline> kill_swept_;  // since sweep() has found somebody
  std::set<pid_t> swept_;               // have got TERM since then
};

// For messages: "python3 (pid 17), sleep (pid 18)"; beyond five a count.
std::string names_of(const std::vector<pid_t>& processes);

// To the process and, unless that is the launcher's own, to its group.
void signal_with_group(pid_t child, int signal);

}  // namespace lockstep::launcher
