#include "launcher/processes/helpers.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <utility>

#include "base/processes.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kHurried = 500ms;
constexpr auto kAfterGoodEnd = 5s, kAfterBadEnd = 1s, kFromTermToKill = 1s, kForDaemons = 3s;
constexpr auto kKillTime = 2s;
// From the end of the helpers' time on; who starts others all the time is not told for ever.
constexpr auto kLast = kForDaemons + 3 * kFromTermToKill;

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

void Helpers::left_by_all(const std::function<bool(pid_t)>& is_kept) {
  std::vector<pid_t> found = children_of(::getpid());
  std::erase_if(found, is_kept);
  for (std::size_t i = 0; i < found.size(); ++i) {  // grows
    const std::vector<pid_t> more = children_of(found[i]);
    found.insert(found.end(), more.begin(), more.end());
    const auto time = kAfterBadEnd + (is_daemon(found[i]) ? kForDaemons : 0s);
    if (const auto stat = stat_of(found[i])) add(found[i], stat->start, Deadline::in(time));
  }
}

bool Helpers::end(const std::vector<pid_t>& children, bool at_once) {
  if (std::ranges::any_of(children, [this](pid_t child) { return !is_daemon(child); }))
    daemons_until_ = later(until_, Deadline::in(kForDaemons));
  if (!last_ && until_.passed() && !children.empty()) last_ = Deadline::in(kLast);
  at_once = at_once || (last_ && last_->passed());
  for (const pid_t child : children) {
    const auto told = told_.find(child);
    if (at_once || (told != told_.end() && told->second.passed())) {
      signal_with_group(child, SIGKILL);
      if (!give_up_) give_up_ = Deadline::in(kKillTime);
    } else if (told == told_.end() && (is_daemon(child) ? daemons_until_ : until_).passed()) {
      signal_with_group(child, SIGTERM);
      told_.emplace(child, Deadline::in(kFromTermToKill));
      give_up_.reset();
    }
  }
  return !give_up_ || !give_up_->passed();
}

bool Helpers::hurry() {
  bool any = false;
  for (Left& left : left_) {
    if (left.start || exists(left.pid) || !exists(-left.pid)) continue;
    any = true;
    if (!std::exchange(left.hurried, true)) left.due = Deadline::in(left.told ? kHurried : 0ms);
  }
  if (any) look();
  return any;
}

void Helpers::look() {
  std::erase_if(left_, [](Left& left) {
    if (!left.due.passed()) return false;
    if (!signal(left, left.told ? SIGKILL : SIGTERM)) return true;
    left.due = Deadline::in(left.hurried ? kHurried : kFromTermToKill);
    return std::exchange(left.told, true);
  });
}

std::optional<Deadline> Helpers::next() const {
  const auto first =
      std::ranges::min_element(left_, {}, [](const Left& left) { return left.due.point(); });
  return first == left_.end() ? std::nullopt : std::optional(first->due);
}

std::string names_of(const std::vector<pid_t>& processes) {
  constexpr std::size_t kMost = 5;
  std::string names;
  for (std::size_t i = 0; i < std::min(processes.size(), kMost); ++i) {
    std::ifstream file("/proc/" + std::to_string(processes[i]) + "/comm");
    std::string name;
    std::getline(file, name);
    names += (i == 0 ? "" : ", ") + name + " (pid " + std::to_string(processes[i]) + ")";
  }
  if (processes.size() > kMost)
    names += " and " + std::to_string(processes.size() - kMost) + " more";
  return names;
}

void signal_with_group(pid_t child, int signal) {
  const pid_t group = ::getpgid(child);
  ::kill(child, signal);
  // A child that is not reaped keeps its group's number.
  if (group > 1 && group != ::getpgrp()) ::kill(-group, signal);
}

}  // namespace lockstep::launcher
