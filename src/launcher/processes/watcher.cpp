#include "launcher/processes/watcher.h"

#include <linux/close_range.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <new>
#include <string>

#include "base/deadline.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kLateNs = std::chrono::nanoseconds(Watcher::kLate).count();
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kLong = 3600 * kSecond;
constexpr std::uint64_t kAgain = kSecond / 20;  // who was being started meanwhile
constexpr auto kToCleanUp = 100ms;
// That the time is earlier than it was, or that the launcher has ended.
constexpr int kWake = SIGUSR1;

Error no_watcher(const char* call) {
  return {ErrorKind::kUnavailable, std::string("cannot start what watches the workers: ") + call +
                                       ": " + std::strerror(errno)};
}

}  // namespace

// Lives as long as the process.
struct Watcher::Page {
  std::atomic<std::uint64_t> until{0};
  std::size_t slots = 0;

  std::atomic<pid_t>* begin() { return reinterpret_cast<std::atomic<pid_t>*>(this + 1); }
  std::atomic<pid_t>* end() { return begin() + slots; }
  static std::size_t size(std::size_t slots) {
    return sizeof(Page) + slots * sizeof(std::atomic<pid_t>);
  }
};

Result<std::unique_ptr<Watcher>> Watcher::start(int most_workers) {
  const auto slots = static_cast<std::size_t>(most_workers);
  void* memory = ::mmap(nullptr, Page::size(slots), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);  // all zero, as all of it begins
  if (memory == MAP_FAILED) return no_watcher("mmap");
  Page* page = new (memory) Page;
  page->slots = slots;
  std::unique_ptr<Watcher> watcher(new Watcher(page));
  LOCKSTEP_TRY(watcher->start_again());
  return watcher;
}

Watcher::~Watcher() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::munmap(page_, Page::size(page_->slots));
}

Status Watcher::start_again() {
  const pid_t launcher = ::getpid();
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);  // the first signal may come before it looks
  pid_ = ::fork();
  if (pid_ == 0) watch(*page_, launcher);
  const int code = errno;
  if (pid_ > 0) ::setpgid(pid_, pid_);  // from now on it is not stopped with our group
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  errno = code;
  return pid_ < 0 ? Status(no_watcher("fork")) : Status();
}

void Watcher::allow_until(std::uint64_t ns) {
  const std::uint64_t before = page_->until.exchange(ns);
  if (pid_ > 0 && ns != 0 && (before == 0 || ns < before)) ::kill(pid_, kWake);
}

std::atomic<pid_t>* Watcher::free_slot() {
  const auto free =
      std::find_if(page_->begin(), page_->end(), [](const auto& slot) { return slot.load() == 0; });
  return free == page_->end() ? nullptr : free;
}

void Watcher::forget(pid_t worker) {
  for (auto& slot : *page_)
    if (slot.load() == worker) slot.store(0);
}

// After a fork of a program that may have threads: system calls, and nothing that takes a lock.
// All signals are blocked; kWake waits until it is looked for.
void Watcher::watch(Page& page, pid_t launcher) {
  ::setpgid(0, 0);
  sigset_t wake;
  ::sigemptyset(&wake);
  ::sigaddset(&wake, kWake);
  ::prctl(PR_SET_NAME, "fence");
  ::close_range(0, ~0U, 0);
  if (::prctl(PR_SET_PDEATHSIG, kWake) != 0) ::_exit(1);
  while (::getppid() == launcher) {
    const std::uint64_t until = page.until.load(), now = monotonic_ns();
    const bool is_over = until != 0 && now >= until + kLateNs;
    if (is_over) end_workers(page);
    const std::uint64_t left = until == 0 ? kLong : is_over ? kAgain : until + kLateNs - now;
    const timespec timeout{static_cast<time_t>(left / kSecond), static_cast<long>(left % kSecond)};
    ::sigtimedwait(&wake, nullptr, &timeout);
  }
  end_left(page);
  ::_exit(0);
}

// The workers, and what they have started: they may be scripts around the programs that compute.
void Watcher::end_workers(Page& page) {
  for (const auto& slot : page)
    if (const pid_t worker = slot.load(); worker > 1) {
      ::kill(worker, SIGKILL);
      ::kill(-worker, SIGKILL);
    }
}

// The launcher was killed, and its workers with it: what they have started was not. Python's
// resource tracker, which heeds no TERM, has a moment to clean up.
void Watcher::end_left(Page& page) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    for (const auto& slot : page)
      if (const pid_t worker = slot.load(); worker > 1) ::kill(-worker, signal);
    if (signal == SIGTERM) pause(kToCleanUp);
  }
}

}  // namespace lockstep::launcher
