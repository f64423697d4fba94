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
#include <new>
#include <string>

#include "base/deadline.h"
#include "base/futex.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kLateNs = std::chrono::nanoseconds(Watcher::kLate).count();
constexpr std::chrono::nanoseconds kAgain = 50ms;  // who was being started meanwhile

Error no_watcher(const char* call) {
  return {ErrorKind::kUnavailable, std::string("cannot start what watches the workers: ") + call +
                                       ": " + std::strerror(errno)};
}

}  // namespace

// Lives as long as the process.
struct Watcher::Page {
  Doorbell bell;  // rings where the time is earlier than it was
  std::atomic<std::uint64_t> until{0};
  std::size_t places = 0;

  std::atomic<pid_t>* begin() { return reinterpret_cast<std::atomic<pid_t>*>(this + 1); }
  std::atomic<pid_t>* end() { return begin() + places; }
  static std::size_t size(std::size_t places) {
    return sizeof(Page) + places * sizeof(std::atomic<pid_t>);
  }
};

Result<std::unique_ptr<Watcher>> Watcher::start(int most_workers) {
  const auto places = static_cast<std::size_t>(most_workers);
  void* memory = ::mmap(nullptr, Page::size(places), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);  // all zero, as all of it begins
  if (memory == MAP_FAILED) return no_watcher("mmap");
  Page* page = new (memory) Page;
  page->places = places;
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
  ::munmap(page_, Page::size(page_->places));
}

Status Watcher::start_again() {
  const pid_t launcher = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) return no_watcher("fork");
  if (pid_ == 0) watch(*page_, launcher);
  return {};
}

void Watcher::allow_until(std::uint64_t ns) {
  const std::uint64_t before = page_->until.exchange(ns);
  if (ns != 0 && (before == 0 || ns < before)) ring(page_->bell);
}

std::atomic<pid_t>* Watcher::free_place() {
  const auto free = std::find_if(page_->begin(), page_->end(),
                                 [](const auto& place) { return place.load() == 0; });
  return free == page_->end() ? nullptr : free;
}

void Watcher::forget(pid_t worker) {
  for (auto& place : *page_)
    if (place.load() == worker) place.store(0);
}

// After a fork of a program that may have threads: system calls, and nothing that takes a lock.
void Watcher::watch(Page& page, pid_t launcher) {
  ::setsid();  // not stopped with the launcher's group
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_NAME, "fence");
  ::close_range(0, ~0U, 0);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != launcher) ::_exit(0);
  while (true) {
    const std::uint32_t seen = page.bell.rings.load();
    const std::uint64_t until = page.until.load(), now = monotonic_ns();
    const bool is_over = until != 0 && now >= until + kLateNs;
    if (is_over)
      for (const auto& place : page)
        if (const pid_t worker = place.load(); worker > 1) {
          ::kill(worker, SIGKILL);
          ::kill(-worker,
                 SIGKILL);  // its session's: it may be a script around the one that computes
        }
    const auto left = is_over ? kAgain : std::chrono::nanoseconds(until + kLateNs - now);
    wait(page.bell, seen, until == 0 ? Deadline::never() : Deadline::in(left));
  }
}

}  // namespace lockstep::launcher
