// Keeps a node's fence where the launcher cannot: a process beside it that kills the workers once
// the time is over until which they may live. A launcher that is stopped (SIGSTOP, ^Z, a debugger)
// tells nothing and kills nobody, and its workers, which have sessions of their own, would run on
// while the other nodes start the next attempt.
//
// The watcher has a process group and a command line of its own (who kills the launcher by its name
// spares it), no descriptor but its timer and the one of hold(), and takes no signal but SIGKILL.
// After a suspended machine has woken it is the first to see how late it is. Where the launcher is
// killed it ends what the workers have started: all in their sessions, then all with their marker()
// in the environment, but for another control group's. Then it ends.
// It shares one page with the launcher: the time, and the workers' pids, each of which its worker
// has written there itself before it executes anything. A pid is taken out before its process is
// reaped (ended()), so it is never another process's; its session is known until nothing_is_left().
//
// Ownership: of the process and the page; the destructor ends both. Threads: the main thread, whose
// end would end the watcher. Errors: kUnavailable.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "launcher/processes/process_tree.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

class Watcher {
 public:
  // Beyond the time told, so that a launcher that runs is the one that kills, and says why. Far
  // less than the second that others wait beyond L (nodes::Rules::grace).
  static constexpr std::chrono::milliseconds kLate{200};

  // Before the first worker: children that this process has by then are left alone (Helpers).
  // For at most so many workers at once; `clock`: of all times told; `held`: see hold(), -1: none.
  static Result<std::unique_ptr<Watcher>> start(int most_workers, clockid_t clock, int held = -1);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // 0: no worker lives, or is about to.
  void allow_until(std::uint64_t ns);
  // For the next worker that is started (SpawnSpec::pid_slot); nullptr: there are too many.
  std::atomic<pid_t>* free_slot();
  // It has ended, and is about to be reaped; what it has started may be left.
  void ended(pid_t worker);
  // Of all that have ended.
  void nothing_is_left();

  // LOCKSTEP_STARTED_BY=… for the workers' environment: whoever has it was started by one of them,
  // as long as nobody takes it out.
  const std::string& marker() const { return mark_.variable; }

  // Keeps `fd` open until nothing of the workers is left, however the launcher ends: a lock, which
  // so is free no sooner. By another process in its place. The caller owns `fd`, and outlives this.
  Status hold(int fd);

  pid_t pid() const { return pid_; }
  // It was reaped: somebody has killed it. Another takes its place.
  Status start_again();

 private:
  struct Page;

  explicit Watcher(Page* page);
  [[noreturn]] void watch(pid_t launcher) const;
  void stop();
  bool is_over() const;
  void end_workers(pid_t launcher) const;
  void end_left() const;

  Page* const page_;
  const Mark mark_;
  std::vector<KnownProcess> others_;  // children that the launcher has besides
  pid_t pid_ = -1;
  int held_ = -1;
};

}  // namespace lockstep::launcher
