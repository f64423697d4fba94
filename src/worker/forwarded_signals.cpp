#include "worker/forwarded_signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::worker {

Error spawn_refused(const char* call) {
  return {ErrorKind::kUnavailable,
          std::string("lockstep::spawn(): ") + call + ": " + std::strerror(errno)};
}

namespace {

sigset_t forwarded() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGQUIT}) sigaddset(&set, number);
  struct sigaction now {};
  if (::sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

Result<ForwardedSignals> ForwardedSignals::take() {
  ForwardedSignals taken;
  const sigset_t set = forwarded();
  taken.signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!taken.signals_) return spawn_refused("signalfd");
  ::sigprocmask(SIG_BLOCK, &set, &taken.old_mask_);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &standard, &taken.old_child_);
  taken.taken_ = true;
  return taken;
}

ForwardedSignals::ForwardedSignals(ForwardedSignals&& other) noexcept
    : signals_(std::move(other.signals_)),
      old_mask_(other.old_mask_),
      old_child_(other.old_child_),
      taken_(std::exchange(other.taken_, false)),
      last_(other.last_) {}

void ForwardedSignals::restore() {
  if (!std::exchange(taken_, false)) return;
  ::sigaction(SIGCHLD, &old_child_, nullptr);
  ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
}

namespace {

// Reaped: from here on the number may be another process's.
Result<siginfo_t> reap(pid_t pid) {
  siginfo_t end{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &end, WEXITED) != 0)
    if (errno != EINTR) return spawn_refused("waitid");
  return end;
}

}  // namespace

Result<siginfo_t> ForwardedSignals::forward_until_end(pid_t pid) {
  siginfo_t found{};
  LOCKSTEP_TRY(forward_until_end({&pid, 1}, [&](const siginfo_t& end) { found = end; }));
  return found;
}

Status ForwardedSignals::forward_until_end(std::span<const pid_t> pids,
                                           const std::function<void(const siginfo_t&)>& ended) {
  std::vector<UniqueFd> children;
  std::vector<pollfd> entries{{signals_.get(), POLLIN, 0}};
  for (const pid_t pid : pids) {
    // glibc 2.36 declares pidfd_open() without C linkage.
    children.emplace_back(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!children.back()) return spawn_refused("pidfd_open");
    entries.push_back({children.back().get(), POLLIN, 0});
  }
  for (std::size_t alive = pids.size(); alive > 0;) {
    if (::poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR)
      return spawn_refused("poll");
    forward(pids, entries);
    for (std::size_t i = 0; i < pids.size(); ++i) {
      if (entries[i + 1].fd < 0 || entries[i + 1].revents == 0) continue;
      LOCKSTEP_ASSIGN(const siginfo_t end, reap(pids[i]));
      entries[i + 1].fd = -1;  // poll() leaves it out
      --alive;
      ended(end);
    }
  }
  return {};
}

// entries[i + 1]: of pids[i], below 0 once that is reaped.
void ForwardedSignals::forward(std::span<const pid_t> pids, std::span<const pollfd> entries) {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    last_ = static_cast<int>(info.ssi_signo);
    for (std::size_t i = 0; i < pids.size(); ++i)
      if (entries[i + 1].fd >= 0) ::kill(pids[i], last_);
  }
}

}  // namespace lockstep::worker
