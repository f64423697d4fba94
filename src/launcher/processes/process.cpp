#include "launcher/processes/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/exec.h"

namespace lockstep::launcher {
namespace {

// Where we have raised our own limit.
std::optional<rlimit>& given_descriptors() {
  static std::optional<rlimit> limit;
  return limit;
}

void connect(int from, int to) {
  if (from == to)
    ::fcntl(to, F_SETFD, 0);
  else
    ::dup2(from, to);
}

// In the child, between fork and exec. Returns errno of what failed.
int become(const SpawnSpec& spec, const ExecWords& arguments, const ExecWords& environment,
           pid_t parent) {
  if (spec.terminal != TerminalUse::kShares) ::setsid();
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
  if (::getppid() != parent) ::_exit(1);  // died before the signal was set
  reset_signals();
  if (const auto& given = given_descriptors()) ::setrlimit(RLIMIT_NOFILE, &*given);
  if (spec.terminal == TerminalUse::kNone && ::isatty(0) != 0)
    connect(::open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
  // Away from 0 to 2 first: one of them may be the other's target.
  const int out = ::fcntl(spec.stdout_fd, F_DUPFD_CLOEXEC, 3),
            err = ::fcntl(spec.stderr_fd, F_DUPFD_CLOEXEC, 3);
  connect(out, 1);
  connect(err, 2);
  // Whoever started the launcher may have left descriptors open that are none of the worker's
  // business.
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  for (const int fd : spec.inherited) ::fcntl(fd, F_SETFD, 0);
  if (spec.pid_slot != nullptr) spec.pid_slot->store(::getpid());
  ::execve(spec.file.c_str(), arguments.get(), environment.get());
  const int code = errno;
  if (spec.pid_slot != nullptr) spec.pid_slot->store(0);
  return code;
}

}  // namespace

std::size_t use_all_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  const rlimit all{limit.rlim_max, limit.rlim_max};
  if (limit.rlim_cur == limit.rlim_max || ::setrlimit(RLIMIT_NOFILE, &all) != 0)
    return limit.rlim_cur;
  if (!given_descriptors()) given_descriptors() = limit;
  return all.rlim_cur;
}

Result<pid_t> spawn_process(const SpawnSpec& spec) {
  const ExecWords arguments(spec.arguments), environment(spec.environment);
  return fork_and_execute(
      spec.file, [&, parent = ::getpid()] { return become(spec, arguments, environment, parent); });
}

std::optional<ChildEvent> next_child_event(const std::function<void(pid_t)>& ended) {
  siginfo_t info{};
  constexpr int kEvery = WEXITED | WSTOPPED | WCONTINUED;
  if (::waitid(P_ALL, 0, &info, kEvery | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return std::nullopt;
  const bool lives = info.si_code == CLD_STOPPED || info.si_code == CLD_CONTINUED;
  if (!lives && ended) ended(info.si_pid);
  // One that lives may have changed again by now: what is taken is told.
  siginfo_t taken{};
  ::waitid(P_PID, static_cast<id_t>(info.si_pid), &taken,
           (lives ? WSTOPPED | WCONTINUED : WEXITED) | WNOHANG);
  if (lives && taken.si_pid == 0) return next_child_event(ended);
  if (lives) info = taken;
  ChildEvent event{ChildEvent::kStopped, info.si_pid, info.si_status};
  if (info.si_code == CLD_EXITED) event.kind = ChildEvent::kExited;
  if (info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED) event.kind = ChildEvent::kKilled;
  if (info.si_code == CLD_CONTINUED) event.kind = ChildEvent::kContinued;
  return event;
}

void signal_group(pid_t pid, int signal) {
  if (pid <= 1) return;  // 0 and -1 would mean others
  // Once: a worker that has not become the leader of its group yet gets it by itself.
  if (::kill(-pid, signal) != 0) ::kill(pid, signal);
}

void signal_process(int process, int signal) {
  ::syscall(SYS_pidfd_send_signal, process, signal, nullptr, 0);
}

}  // namespace lockstep::launcher
