#include "launcher/processes/vitals.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/env.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

// Of the launcher's life: the list may be long (one line for each container of the host).
const ControlGroups& control_groups() {
  static const ControlGroups groups(posix_env());
  return groups;
}

std::string status_of(const std::string& place) {
  auto text = posix_env().read(place + "/status", 1 << 16);
  return text.ok() ? *std::move(text) : std::string();
}

bool has_line(std::string_view text, std::string_view line) {
  for (std::size_t at = 0; (at = text.find(line, at)) != std::string_view::npos; ++at) {
    const std::size_t end = at + line.size();
    if ((at == 0 || text[at - 1] == '\n') && (end == text.size() || text[end] == '\n')) return true;
  }
  return false;
}

// "NAME:\tVALUE\n": the value's first character; '\0': there is no such line.
char first_of(std::string_view status, std::string_view name) {
  const std::string line = "\n" + std::string(name) + ":\t";
  const std::size_t at = status.find(line);
  return at == std::string_view::npos || at + line.size() >= status.size()
             ? '\0'
             : status[at + line.size()];
}

}  // namespace

bool is_held(std::string_view status) {
  const char state = first_of(status, "State"), tracer = first_of(status, "TracerPid");
  return state == 'T' || state == 't' || (tracer != '\0' && tracer != '0');
}

bool is_frozen(const ControlGroups& groups, std::string_view process) {
  return std::ranges::any_of(groups.of(process, "freezer"), [&](const ControlGroup& group) {
    if (group.v2) return has_line(groups.read(group, "cgroup.events"), "frozen 1");
    const std::string state = groups.read(group, "freezer.state");
    return has_line(state, "FROZEN") || has_line(state, "FREEZING");
  });
}

std::chrono::nanoseconds pause_between_looks(std::chrono::nanoseconds shortest,
                                             std::optional<std::chrono::nanoseconds> strict) {
  constexpr std::chrono::nanoseconds kLeast = 100ms, kMost = 1s;
  const auto most = strict ? std::clamp(*strict / 10, kLeast, kMost) : kMost;
  return std::clamp(shortest / 10, kLeast, most);
}

void Vitals::look(pid_t pid, bool waits, std::uint64_t now) {
  const std::string place = "/proc/" + std::to_string(pid);
  std::map<std::string, Thread> threads;
  std::uint64_t ran = 0, starved = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(place + "/task", ignored)) {
    const std::string id = entry.path().filename();
    // Nanoseconds on a CPU, nanoseconds ready for one, turns.
    std::ifstream file(entry.path() / "schedstat");
    Thread thread;
    if (!(file >> thread.ran >> thread.starved)) continue;
    const Thread before = threads_[id];  // one that is new had nothing
    ran += thread.ran - std::min(thread.ran, before.ran);
    starved = std::max(starved, thread.starved - std::min(thread.starved, before.starved));
    threads.emplace(id, thread);
  }
  if (at_ != 0) {
    const bool held =
        waits || is_held(status_of(place)) || is_frozen(control_groups(), std::to_string(pid));
    so_far_.ran_ns += ran;
    so_far_.excused_ns += held ? now - at_ : std::min(now - at_, starved);
  }
  threads_ = std::move(threads);
  if (at_ == 0) since_ = now;
  at_ = now;
}

}  // namespace lockstep::launcher
