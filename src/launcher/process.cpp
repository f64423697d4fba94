#include "launcher/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

extern char** environ;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): POSIX

namespace lockstep::launcher {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& s : strings) result.push_back(const_cast<char*>(s.c_str()));
  result.push_back(nullptr);
  return result;
}

void reset_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal <= SIGRTMAX; ++signal)
    ::sigaction(signal, &action, nullptr);  // KILL and STOP: refused, fine
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void connect(int from, int to) {
  if (from == to)
    ::fcntl(to, F_SETFD, 0);
  else
    ::dup2(from, to);
}

// In the child, between fork and exec. Returns errno of what failed.
int become(const SpawnSpec& spec, char** arguments, char** environment, pid_t parent) {
  ::setsid();
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
  if (::getppid() != parent) ::_exit(1);  // died before the signal was set
  reset_signals();
  if (::isatty(0) != 0) connect(::open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
  // Away from 0 to 2 first: one of them may be the other's target.
  const int out = ::fcntl(spec.stdout_fd, F_DUPFD_CLOEXEC, 3),
            err = ::fcntl(spec.stderr_fd, F_DUPFD_CLOEXEC, 3);
  connect(out, 1);
  connect(err, 2);
  // Whoever started the launcher may have left descriptors open that are none of the worker's
  // business.
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  for (const int fd : spec.inherited) ::fcntl(fd, F_SETFD, 0);
  ::execve(spec.file.c_str(), arguments, environment);
  return errno;
}

Error refused(const char* call, int code) {
  return {ErrorKind::kUnavailable,
          std::string("cannot start a process: ") + call + ": " + std::strerror(code)};
}

}  // namespace

Result<pid_t> spawn_process(const SpawnSpec& spec) {
  const std::vector<char*> arguments = pointers(spec.arguments),
                           environment = pointers(spec.environment);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return refused("pipe", errno);
  UniqueFd readable(ends[0]), writable(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return refused("fork", errno);
  if (pid == 0) {
    const int code = become(spec, const_cast<char**>(arguments.data()),
                            const_cast<char**>(environment.data()), parent);
    [[maybe_unused]] const auto written = ::write(writable.get(), &code, sizeof code);
    ::_exit(127);
  }
  writable.reset();
  int code = 0;
  ssize_t n = 0;
  while ((n = ::read(readable.get(), &code, sizeof code)) < 0 && errno == EINTR) {
  }
  if (n == 0) return pid;  // closed by execve
  ::waitpid(pid, nullptr, 0);
  return Error{ErrorKind::kUsage, "cannot start '" + spec.file + "': " + std::strerror(code)};
}

std::optional<ChildEvent> next_child_event() {
  siginfo_t info{};
  constexpr int kEvery = WEXITED | WSTOPPED | WCONTINUED;
  // Looked at first and taken after: as long as the dead leader is not reaped, its group's number
  // cannot be another's.
  if (::waitid(P_ALL, 0, &info, kEvery | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return std::nullopt;
  ChildEvent event{ChildEvent::kStopped, info.si_pid, info.si_status};
  if (info.si_code == CLD_EXITED) event.kind = ChildEvent::kExited;
  if (info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED) event.kind = ChildEvent::kKilled;
  if (info.si_code == CLD_CONTINUED) event.kind = ChildEvent::kContinued;
  const bool dead = event.kind == ChildEvent::kExited || event.kind == ChildEvent::kKilled;
  if (dead) ::kill(-event.pid, SIGKILL);  // what it has started and left in its group
  const int taken = dead ? WEXITED : event.kind == ChildEvent::kContinued ? WCONTINUED : WSTOPPED;
  ::waitid(P_PID, static_cast<id_t>(event.pid), &info, taken | WNOHANG);
  return event;
}

void signal_group(pid_t pid, int signal) {
  if (pid <= 1) return;  // 0 and -1 would mean others
  ::kill(-pid, signal);
  ::kill(pid, signal);  // a worker that has not become a group leader yet
}

void signal_process(int process, int signal) {
  ::syscall(SYS_pidfd_send_signal, process, signal, nullptr, 0);
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

std::vector<std::string> environment_with(const std::vector<std::string>& changes,
                                          const std::vector<std::string>& removed) {
  const auto name_of = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
  const auto replaced = [&](std::string_view name) {
    return std::any_of(changes.begin(), changes.end(),
                       [&](const std::string& c) { return name_of(c) == name; }) ||
           std::find(removed.begin(), removed.end(), name) != removed.end();
  };
  std::vector<std::string> result = changes;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!replaced(name_of(*entry))) result.emplace_back(*entry);
  return result;
}

}  // namespace lockstep::launcher
