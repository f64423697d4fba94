#include "worker/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/deadline.h"
#include "base/exec.h"
#include "base/log.h"
#include "base/process_setup.h"
#include "coord/channel.h"
#include "coord/descriptors.h"
#include "worker/child.h"
#include "worker/find_launcher.h"
#include "worker/fork_point.h"
#include "worker/forwarded_signals.h"
#include "worker/note.h"
#include "worker/own_command.h"

namespace lockstep::worker {
Status check_outside_of_runs() {
  if (const char* run = std::getenv("TORCHELASTIC_RUN_ID")) {
    const char* rank = std::getenv("RANK");
    return Error{ErrorKind::kUsage,
                 std::string("lockstep::spawn() was called inside the run '") + run +
                     "', in rank " + (rank == nullptr ? "?" : rank) +
                     " (TORCHELASTIC_RUN_ID and RANK are set): its workers would be started once "
                     "for each rank. Start this program by itself, without a launcher"};
  }
  for (const char* variable : {coord::kZygoteVariable, coord::kWorkerVariable})
    if (std::getenv(variable) != nullptr)
      return Error{ErrorKind::kUsage,
                   "lockstep::spawn() was called in a program that 'lockstep run' has started, and "
                   "which workers are forked from: call lockstep::init() there, or start this "
                   "program by itself, without a launcher"};
  return {};
}

namespace {

[[noreturn]] void be_zygote(const SpawnCall& call, UniqueFd socket, pid_t agent) {
  die_with(agent, SIGKILL);
  leave_terminal();
  ::setenv("OMP_NUM_THREADS", "1", 0);  // for what workers execute, as under `lockstep run`
  auto session = Session::serve(std::move(socket));
  if (!session.ok()) end_with(session.error());
  call.lives(*std::move(session));
  ::_exit(0);
}

std::vector<std::string> launcher_command(const SpawnCall& call, const std::string& launcher) {
  std::vector<std::string> words{launcher, "run", "--standalone", "--nproc-per-node",
                                 std::to_string(call.workers)};
  words.insert(words.end(), call.options.begin(), call.options.end());
  for (std::string& word : own_command()) words.push_back(std::move(word));
  return words;
}

[[noreturn]] void become_launcher(const SpawnCall& call, const std::string& launcher,
                                  int zygote_socket, pid_t zygote) {
  const ExecWords arguments(launcher_command(call, launcher));
  const std::string spawned = std::to_string(zygote_socket) + ":" + std::to_string(zygote) + ":" +
                              std::to_string(call.workers);
  ::setenv(coord::kSpawnedVariable, spawned.c_str(), 1);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // what the caller has open is not for the launcher
  ::fcntl(zygote_socket, F_SETFD, 0);
  ::execv(launcher.c_str(), arguments.get());
  end_with({ErrorKind::kUnavailable,
            "cannot start '" + launcher + "': " + std::string(std::strerror(errno))});
}

// In the fork that becomes the launcher. The signals stay blocked: the launcher reads them.
[[noreturn]] void be_agent(const SpawnCall& call, const std::string& launcher, pid_t caller,
                           ForwardedSignals& signals) {
  die_with(caller, SIGTERM);  // an end in order, with nothing left behind
  ::setsid();
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    end_with(spawn_refused("prctl(PR_SET_CHILD_SUBREAPER)"));
  auto ends = coord::make_channel();
  if (!ends.ok()) end_with(ends.error());
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child, nullptr);  // the zygote may end before the launcher looks
  const pid_t self = ::getpid();
  const pid_t zygote = ::fork();
  if (zygote < 0) end_with(spawn_refused("fork"));
  if (zygote == 0) {
    ends->first.reset();
    signals.restore();
    be_zygote(call, std::move(ends->second), self);
  }
  become_launcher(call, launcher, ends->first.get(), zygote);
}

// What the launcher's end means to the caller.
Status outcome(const siginfo_t& end, int workers) {
  const std::string run = "the run of lockstep::spawn(" + std::to_string(workers) + ", ...) ";
  if (end.si_code != CLD_EXITED)
    return Error{ErrorKind::kResumable, run + "is over: its launcher, process " +
                                            std::to_string(end.si_pid) + ", was ended by signal " +
                                            std::to_string(end.si_status) +
                                            ", and its workers with it"};
  if (end.si_status == 0) return {};
  if (end.si_status > 128)
    return Error{ErrorKind::kResumable,
                 run + "was ended by signal " + std::to_string(end.si_status - 128)};
  return Error{kind_of(end.si_status), run + "ended with exit code " +
                                           std::to_string(end.si_status) + "; its error is above"};
}

// Zygotes and workers have the pipe's other end. If the launcher was killed, the kernel is about to
// kill them; a worker's child that has neither ended nor executed anything may keep us for a while.
void wait_for_end_of_all(int pipe) {
  pollfd entry{pipe, POLLIN, 0};
  for (const Deadline deadline = Deadline::in(std::chrono::seconds(2)); !deadline.passed();)
    if (::poll(&entry, 1, 100) > 0) return;
}

}  // namespace

Status spawn(const SpawnCall& call) {
  keep_note();
  LOCKSTEP_TRY(check_single_thread(
      "lockstep::spawn()",
      "Call spawn() before anything that starts threads; libtorch starts its own with the first "
      "large tensor unless OMP_NUM_THREADS=1, so make tensors in the function given to spawn()"));
  LOCKSTEP_ASSIGN(const std::string launcher, find_launcher("lockstep::spawn()"));
  flush_outputs();
  const pid_t caller = ::getpid();
  int life[2];
  if (::pipe2(life, O_CLOEXEC) != 0) return spawn_refused("pipe2");
  const UniqueFd ended(life[0]);
  UniqueFd lives(life[1]);
  LOCKSTEP_ASSIGN(ForwardedSignals signals, ForwardedSignals::take());
  const pid_t agent = ::fork();
  if (agent == 0) be_agent(call, launcher, caller, signals);
  if (agent < 0) return spawn_refused("fork");
  lives.reset();
  const auto end = signals.forward_until_end(agent);
  if (!end.ok()) ::kill(agent, SIGKILL), ::waitpid(agent, nullptr, 0);  // no run without a caller
  wait_for_end_of_all(ended.get());
  signals.restore();
  if (!end.ok()) return end.error();
  const int by = end->si_code == CLD_EXITED ? end->si_status - 128 : end->si_status;
  if (by > 0 && by == signals.last()) ::raise(by);  // sent to us; the program may have a handler
  return outcome(*end, call.workers);
}

}  // namespace lockstep::worker
