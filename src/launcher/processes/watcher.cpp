#include "launcher/processes/watcher.h"

#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <new>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/random_hex.h"
#include "launcher/processes/process_tree.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kLateNs = std::chrono::nanoseconds(Watcher::kLate).count();
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kAgain = kSecond / 20;  // who was being started meanwhile
constexpr auto kToCleanUp = 100ms, kToDie = 500ms, kLook = 5ms;
// That the time is earlier than it was, or that the launcher has ended.
constexpr int kWake = SIGUSR1;

// Where the kernel reads this process's command line. Empty: it is not known.
std::span<char> command_line() {
  std::ifstream file("/proc/self/stat");
  const std::string stat((std::istreambuf_iterator<char>(file)), {});
  const auto name_end = stat.rfind(')');  // of field 2; proc(5)
  if (name_end == std::string::npos) return {};
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 48; ++field) fields >> skipped;
  std::uintptr_t begin = 0, end = 0;
  if (!(fields >> begin >> end) || begin == 0 || end <= begin) return {};
  return {reinterpret_cast<char*>(begin), end - begin};
}

void rename(std::span<char> command_line, std::string_view name) {
  std::fill(command_line.begin(), command_line.end(), '\0');
  std::copy_n(name.begin(), std::min(name.size(), command_line.size()), command_line.begin());
}

std::string new_marker() { return "LOCKSTEP_STARTED_BY=" + random_hex(16); }

// `signal_all`: true as long as anybody is there. Two looks in a row must find nobody: of a process
// that executes another program it is not known for a moment with what it was started.
template <class SignalAll>
bool are_gone_by(Deadline deadline, int signal, SignalAll signal_all) {
  for (int empty = 0; !deadline.passed(); pause(kLook)) {
    empty = signal_all(signal) ? 0 : empty + 1;
    if (empty == 2) return true;
  }
  return false;
}

// Python's resource tracker, which heeds no TERM, has a moment to clean up. KILL is sent at each
// look, since who is found may have started others meanwhile.
template <class SignalAll>
void end_all(SignalAll signal_all) {
  signal_all(SIGTERM);
  if (!are_gone_by(Deadline::in(kToCleanUp), 0, signal_all))
    are_gone_by(Deadline::in(kToDie), SIGKILL, signal_all);
}

// All but this one; -1: all.
void close_others(int fd) {
  const unsigned kept = fd < 0 ? ~0U : static_cast<unsigned>(fd);
  if (kept > 0) ::close_range(0, kept - (fd < 0 ? 0 : 1), 0);
  if (fd >= 0) ::close_range(kept + 1, ~0U, 0);
}

Error no_watcher(const char* call) {
  return {ErrorKind::kUnavailable, std::string("cannot start what watches the workers: ") + call +
                                       ": " + std::strerror(errno)};
}

}  // namespace

// Lives as long as the process.
struct Watcher::Page {
  std::atomic<std::uint64_t> until{0};
  std::size_t slots = 0;  // a worker's pid each; minus that of one that has ended; 0: free
  clockid_t clock = CLOCK_BOOTTIME;

  std::atomic<pid_t>* begin() { return reinterpret_cast<std::atomic<pid_t>*>(this + 1); }
  std::atomic<pid_t>* end() { return begin() + slots; }
  static std::size_t size(std::size_t slots) {
    return sizeof(Page) + slots * sizeof(std::atomic<pid_t>);
  }
};

Watcher::Watcher(Page* page) : page_(page), mark_(mark_of_this_process(new_marker())) {}

Result<std::unique_ptr<Watcher>> Watcher::start(int most_workers, clockid_t clock, int held) {
  const auto slots = static_cast<std::size_t>(most_workers);
  void* memory = ::mmap(nullptr, Page::size(slots), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);  // all zero, as all of it begins
  if (memory == MAP_FAILED) return no_watcher("mmap");
  Page* page = new (memory) Page;
  page->slots = slots;
  page->clock = clock;
  std::unique_ptr<Watcher> watcher(new Watcher(page));
  watcher->held_ = held;
  watcher->others_ = known_children_of(::getpid());
  LOCKSTEP_TRY(watcher->start_again());
  return watcher;
}

void Watcher::stop() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

Watcher::~Watcher() {
  stop();
  ::munmap(page_, Page::size(page_->slots));
}

Status Watcher::hold(int fd) {
  held_ = fd;
  stop();
  return start_again();
}

Status Watcher::start_again() {
  const pid_t launcher = ::getpid();
  const std::span<char> name = command_line();
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);  // the first signal may come before it looks
  pid_ = ::fork();
  if (pid_ == 0) {
    rename(name, "fence");
    watch(launcher);
  }
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
      std::find_if(page_->begin(), page_->end(), [](const auto& slot) { return slot.load() <= 0; });
  return free == page_->end() ? nullptr : free;
}

void Watcher::ended(pid_t worker) {
  for (auto& slot : *page_)
    if (slot.load() == worker) slot.store(-worker);
}

void Watcher::nothing_is_left() {
  for (auto& slot : *page_)
    if (slot.load() < 0) slot.store(0);
}

// After a fork of a program that may have threads: system calls, and nothing that takes a lock.
// All signals are blocked; kWake waits until it is looked for. The timer rings as soon as a machine
// wakes that was suspended beyond the time; a sleep of this process would go on where it was.
void Watcher::watch(pid_t launcher) const {
  Page& page = *page_;
  ::setpgid(0, 0);
  struct sigaction heed {};
  heed.sa_handler = [](int) {};
  ::sigaction(kWake, &heed, nullptr);
  sigset_t but_wake;
  ::sigfillset(&but_wake);
  ::sigdelset(&but_wake, kWake);
  ::prctl(PR_SET_NAME, "fence");
  close_others(held_);
  pollfd timer{::timerfd_create(page.clock, TFD_CLOEXEC), POLLIN, 0};
  if (timer.fd < 0 || ::prctl(PR_SET_PDEATHSIG, kWake) != 0) ::_exit(1);
  while (::getppid() == launcher) {
    const bool was_over = is_over();
    if (was_over) end_workers(launcher);
    const std::uint64_t until = page.until.load(), now = clock_ns(page.clock);
    const std::uint64_t not_before = was_over ? now + kAgain : 0;
    const std::uint64_t next = until == 0 ? 0 : std::max(until + kLateNs, not_before);
    itimerspec when{};  // at 0 it does not ring
    when.it_value = {static_cast<time_t>(next / kSecond), static_cast<long>(next % kSecond)};
    ::timerfd_settime(timer.fd, TFD_TIMER_ABSTIME, &when, nullptr);
    ::ppoll(&timer, 1, nullptr, &but_wake);
  }
  end_left();
  ::_exit(0);
}

bool Watcher::is_over() const {
  const std::uint64_t until = page_->until.load();
  return until != 0 && clock_ns(page_->clock) >= until + kLateNs;
}

// The workers, and what they have started: they may be scripts around the programs that compute.
// On a node the launcher has no other descendants but those that were there before.
void Watcher::end_workers(pid_t launcher) const {
  kill_descendants(launcher, ::getpid(), others_);
  for (const auto& slot : *page_)
    if (const pid_t worker = slot.load(); worker > 1 && is_over()) {  // still
      ::kill(worker, SIGKILL);
      ::kill(-worker, SIGKILL);
    }
}

// The launcher was killed, and its workers with it: what they have started was not, and has other
// parents now. Who is in their sessions is ended first: nothing is read of those that could wait.
void Watcher::end_left() const {
  end_all([this](int signal) { return signal_sessions({page_->begin(), page_->end()}, signal); });
  end_all([this](int signal) { return signal_marked(mark_, signal); });
}

}  // namespace lockstep::launcher
