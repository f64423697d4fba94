#include "launcher/processes/vitals.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace lockstep::launcher {
namespace {

// Files of the kernel, which have no size.
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
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

bool is_frozen(std::string_view cgroups, const std::string& mounted) {
  while (!cgroups.empty()) {  // "NUMBER:CONTROLLERS:/PATH", one for each hierarchy
    const std::size_t end = std::min(cgroups.find('\n'), cgroups.size());
    const std::string_view line = cgroups.substr(0, end);
    cgroups.remove_prefix(std::min(end + 1, cgroups.size()));
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (controllers == "freezer") {
      const std::string state = text_of(mounted + "/freezer" + path + "/freezer.state");
      if (has_line(state, "FROZEN") || has_line(state, "FREEZING")) return true;
    }
    if (!controllers.empty()) continue;
    for (const char* at : {"", "/unified"})  // version 2 alone, or beside version 1
      if (has_line(text_of(mounted + at + path + "/cgroup.events"), "frozen 1")) return true;
  }
  return false;
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
    const bool held = waits || is_held(text_of(place + "/status")) ||
                      is_frozen(text_of(place + "/cgroup"), "/sys/fs/cgroup");
    so_far_.ran_ns += ran;
    so_far_.excused_ns += held ? now - at_ : std::min(now - at_, starved);
  }
  threads_ = std::move(threads);
  at_ = now;
}

}  // namespace lockstep::launcher
