#include "worker/ranks.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/errors.h"
#include "base/log.h"
#include "base/process_setup.h"
#include "worker/child.h"
#include "worker/fork_point.h"
#include "worker/forwarded_signals.h"
#include "worker/meeting.h"
#include "worker/note.h"

namespace lockstep::worker {
namespace {

Rendezvous rank_of(const RanksCall& call, int number) {
  Rendezvous own = call.first;
  own.rank += number;
  return own;
}

Status check(const RanksCall& call) {
  const auto meeting = meeting_of(call.first);  // an error that all would have is told once
  if (!meeting.ok()) return meeting.error();
  const auto& [address, rank, world, wait] = call.first;
  if (call.workers <= world - rank) return {};
  return misuse("lockstep::spawn(" + std::to_string(call.workers) +
                ", ...) with a rendezvous: its ranks would be " + std::to_string(rank) + " to " +
                std::to_string(rank + call.workers - 1) + ", and of " + std::to_string(world) +
                " there are 0 to " + std::to_string(world - 1));
}

[[noreturn]] void be_rank(const RanksCall& call, int number, pid_t caller,
                          ForwardedSignals& signals) {
  die_with(caller, SIGKILL);
  leave_terminal();
  signals.restore();
  auto session = Session::open(rank_of(call, number));
  if (!session.ok()) end_with(session.error());
  call.lives(*std::move(session));
  ::_exit(0);
}

// How they have ended.
class Ends {
 public:
  Ends(const RanksCall& call, const ForwardedSignals& forwarded)
      : call_(call), forwarded_(forwarded) {}

  void started(pid_t pid) { pids_.push_back(pid), alive_.push_back(pid); }
  const std::vector<pid_t>& pids() const { return pids_; }
  const std::vector<pid_t>& alive() const { return alive_; }

  void add(const siginfo_t& end) {
    std::erase(alive_, end.si_pid);
    if (end.si_code != CLD_EXITED) {
      signals_.insert(end.si_status);
      if (end.si_status != forwarded_.last()) tell_killed(end);
      return;
    }
    well_ += end.si_status == 0 ? 1 : 0;
    if (end.si_status != 0 && !failed_) failed_ = end;
  }
  // Whether a rank was ended by the signal that the caller has passed on.
  bool by_forwarded() const { return !failed_ && signals_.contains(forwarded_.last()); }
  // A run goes on without the killed: its others' end is what counts.
  Status outcome() const {
    if (failed_)
      return Error{kind_of(failed_->si_status), name(failed_->si_pid) + " ended with exit code " +
                                                    std::to_string(failed_->si_status) +
                                                    "; its error is above"};
    if (well_ > 0) return {};
    return Error{ErrorKind::kResumable,
                 "all ranks of this command were ended by signals; it joins them again"};
  }

 private:
  std::string name(pid_t pid) const {
    const auto number = std::find(pids_.begin(), pids_.end(), pid) - pids_.begin();
    return "rank " + std::to_string(call_.first.rank + number) + " (process " +
           std::to_string(pid) + ")";
  }
  void tell_killed(const siginfo_t& end) const {
    log_warning(name(end.si_pid) + " was ended by signal " + std::to_string(end.si_status) +
                ": nobody starts it again; the other ranks go on without it");
  }

  const RanksCall& call_;
  const ForwardedSignals& forwarded_;
  std::vector<pid_t> pids_;   // by number
  std::vector<pid_t> alive_;  // not reaped
  int well_ = 0;
  std::set<int> signals_;            // that have ended some
  std::optional<siginfo_t> failed_;  // the first
};

// Those that there are already end with the caller's error.
Status start_all(const RanksCall& call, ForwardedSignals& signals, Ends& ends) {
  const pid_t caller = ::getpid();
  for (int number = 0; number < call.workers; ++number) {
    const pid_t pid = ::fork();
    if (pid == 0) be_rank(call, number, caller, signals);
    if (pid < 0) return spawn_refused("fork");
    ends.started(pid);
  }
  return {};
}

void kill_all(const Ends& ends) {
  for (const pid_t pid : ends.alive()) ::kill(pid, SIGKILL), ::waitpid(pid, nullptr, 0);
}

}  // namespace

Status run_ranks(const RanksCall& call) {
  keep_note();
  LOCKSTEP_TRY(check_single_thread("lockstep::spawn()",
                                   "Call spawn() before anything that starts threads; make tensors "
                                   "in the function given to it"));
  LOCKSTEP_TRY(check(call));
  flush_outputs();
  LOCKSTEP_ASSIGN(ForwardedSignals signals, ForwardedSignals::take());
  Ends ends(call, signals);
  Status status = start_all(call, signals, ends);
  if (status.ok())
    status = signals.forward_until_end(ends.pids(), [&](const siginfo_t& end) { ends.add(end); });
  if (!status.ok()) {
    kill_all(ends);
    return status;
  }
  signals.restore();
  if (ends.by_forwarded()) ::raise(signals.last());
  return ends.outcome();
}

}  // namespace lockstep::worker
