#include "launcher/processes/helpers.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <utility>

#include "base/listed.h"
#include "base/log.h"
#include "base/processes.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kSweepTime = 500ms, kSweepPause = 5ms;
constexpr auto kAfterGoodEnd = 5s, kAfterBadEnd = 1s, kFromTermToKill = 1s, kForDaemons = 3s;
constexpr auto kKillTime = 2s;
// From the end of the helpers' time on; who starts others all the time is not told for ever.
constexpr auto kLast = kForDaemons + 3 * kFromTermToKill;

std::string comm_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

Deadline later(Deadline a, Deadline b) { return a.point() < b.point() ? b : a; }

bool exists(pid_t number) { return ::kill(number, 0) == 0 || errno == EPERM; }

}  // namespace

bool Helpers::signal(const Left& left, int number) {
  const auto now = left.start ? stat_of(left.pid) : std::nullopt;
  if (now && now->start == *left.start) {
    signal_with_group(left.pid, number);
    return true;
  }
  // While anybody is in a group, its number is no other process's.
  if (exists(left.pid) || !exists(-left.pid)) return false;
  ::kill(-left.pid, number);
  return true;
}

void Helpers::add(pid_t pid, std::optional<std::uint64_t> start, Deadline due) {
  if (pid > 1) left_.push_back({pid, start, due});
}

void Helpers::leave_alone_who_is_there() { was_there_ = known_children_of(::getpid()); }

bool Helpers::was_there(pid_t process) const { return is_among(was_there_, process); }

void Helpers::left_by(pid_t worker, bool ended_well) {
  const Deadline due = Deadline::in(ended_well ? kAfterGoodEnd : kAfterBadEnd);
  until_ = later(until_, due);
  daemons_until_ = later(until_, Deadline::in(kForDaemons));
  workers_.insert(worker);
  add(worker, std::nullopt, due);
}

bool Helpers::is_daemon(pid_t process) const {
  const pid_t session = ::getsid(process);
  return !workers_.contains(session) && session != ::getsid(0);
}

// We are their subreaper: as long as any of them lives, one is our own child. So a look that finds
// none is right, whoever starts others and ends meanwhile.
std::vector<pid_t> Helpers::descendants(const std::function<bool(pid_t)>& is_left_out) const {
  std::vector<pid_t> found = children_of(::getpid());
  std::erase_if(found, [&](pid_t child) { return was_there(child) || is_left_out(child); });
  for (std::size_t i = 0; i < found.size(); ++i) {  // grows
    std::vector<pid_t> more = children_of(found[i]);
    std::erase_if(more, is_left_out);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

void Helpers::left_by_all(const std::function<bool(pid_t)>& is_kept) {
  for (const pid_t pid : descendants(is_kept)) {
    const auto time = kAfterBadEnd + (is_daemon(pid) ? kForDaemons : 0s);
    if (const auto stat = stat_of(pid)) add(pid, stat->start, Deadline::in(time));
  }
}

bool Helpers::end(const std::vector<pid_t>& children, bool at_once) {
  if (std::ranges::any_of(children, [this](pid_t child) { return !is_daemon(child); }))
    daemons_until_ = later(until_, Deadline::in(kForDaemons));
  if (!last_ && until_.passed() && !children.empty()) last_ = Deadline::in(kLast);
  at_once = at_once || (last_ && last_->passed());
  bool may_end = children.empty();
  for (const pid_t child : children) {
    const auto told = told_.find(child);
    if (at_once || (told != told_.end() && told->second.passed())) {
      signal_with_group(child, SIGKILL);
      const auto killed = killed_.try_emplace(child, Deadline::in(kKillTime)).first;
      may_end = may_end || !killed->second.passed();
      continue;
    }
    may_end = true;
    if (told == told_.end() && (is_daemon(child) ? daemons_until_ : until_).passed()) {
      signal_with_group(child, SIGTERM);
      told_.emplace(child, Deadline::in(kFromTermToKill));
    }
  }
  return may_end;
}

bool Helpers::sweep(const std::function<bool(pid_t)>& is_kept) {
  const std::vector<pid_t> left =
      descendants([&](pid_t pid) { return is_kept(pid) || only_cleans_up(pid); });
  const bool is_late = kill_swept_ && (Deadline::at(kill_swept_->point() + kKillTime)).passed();
  if (left.empty() || is_late) {
    if (!left.empty())
      log_warning("what workers have left behind does not end even on SIGKILL: " + names_of(left));
    kill_swept_.reset();
    swept_.clear();
    return false;
  }
  if (!kill_swept_) kill_swept_ = Deadline::in(kSweepTime);
  for (const pid_t pid : left) {
    if (kill_swept_->passed()) {
      ::kill(pid, SIGKILL);
    } else if (swept_.insert(pid).second) {
      ::kill(pid, SIGTERM);
      ::kill(pid, SIGCONT);  // a stopped one takes no TERM
    }
  }
  return true;
}

void Helpers::look() {
  std::erase_if(left_, [](Left& left) {
    if (!left.due.passed()) return false;
    if (!signal(left, left.told ? SIGKILL : SIGTERM)) return true;
    left.due = Deadline::in(kFromTermToKill);
    return std::exchange(left.told, true);
  });
}

std::optional<Deadline> Helpers::next() const {
  std::optional<Deadline> next;
  if (kill_swept_) next = later(*kill_swept_, Deadline::in(kSweepPause));
  for (const Left& left : left_)
    if (!next || left.due.point() < next->point()) next = left.due;
  return next;
}

std::string names_of(const std::vector<pid_t>& processes) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(processes.size(), kMost); ++i)
    names.push_back(comm_of(processes[i]) + " (pid " + std::to_string(processes[i]) + ")");
  return listed(names, processes.size());
}

void signal_with_group(pid_t child, int signal) {
  const pid_t group = ::getpgid(child);
  ::kill(child, signal);
  // A child that is not reaped keeps its group's number.
  if (group > 1 && group != ::getpgrp()) ::kill(-group, signal);
}

}  // namespace lockstep::launcher
