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

Result<siginfo_t> ForwardedSignals::forward_until_end(pid_t pid) {
  // glibc 2.36 declares pidfd_open() without C linkage.
  const UniqueFd child(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!child) return spawn_refused("pidfd_open");
  pollfd entries[] = {{child.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
  while (entries[0].revents == 0) {
    if (::poll(entries, 2, -1) < 0 && errno != EINTR) return spawn_refused("poll");
    signalfd_siginfo info;
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      last_ = static_cast<int>(info.ssi_signo);
      ::kill(pid, last_);  // not reaped yet: it is nobody else's number
    }
  }
  siginfo_t end{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &end, WEXITED) != 0)
    if (errno != EINTR) return spawn_refused("waitid");
  return end;
}

}  // namespace lockstep::worker
