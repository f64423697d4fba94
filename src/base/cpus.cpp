#include "base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/text.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kMostBytes = 1 << 20;

// One hierarchy of control groups that may limit CPUs.
struct Hierarchy {
  bool v2 = false;
  std::string mount, root;  // where it is mounted, and which group is seen there
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool has_cpu(const std::string& controllers) {
  const auto names = split(controllers, ',');
  return std::ranges::find(names, "cpu") != names.end();
}

// Of mountinfo: a space, a tab, a line end and a backslash are there as "\\040" and so on.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto is_octal = [&](std::size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '7';
    };
    if (text[i] == '\\' && is_octal(i + 1) && is_octal(i + 2) && is_octal(i + 3)) {
      out +=
          static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0');
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// 31 23 0:28 ROOT MOUNT OPTIONS [more...] - TYPE SOURCE SUPER_OPTIONS
std::optional<Hierarchy> hierarchy_of(const std::string& line) {
  const auto fields = split(line, ' ');
  const auto dash = std::ranges::find(fields, "-");
  if (dash - fields.begin() < 6 || fields.end() - dash < 4) return std::nullopt;
  const std::string& type = dash[1];
  if (type != "cgroup2" && !(type == "cgroup" && has_cpu(dash[3]))) return std::nullopt;
  return Hierarchy{type == "cgroup2", unescaped(fields[4]), unescaped(fields[3])};
}

// The group of this process: v2 has "0::PATH", v1 "N:CONTROLLERS:PATH"; a path may have a colon.
std::optional<std::string> group_in(const Hierarchy& hierarchy, const std::string& groups) {
  for (const std::string& line : split(groups, '\n')) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (hierarchy.v2 ? line.starts_with("0::") : has_cpu(controllers))
      return line.substr(second + 1);
  }
  return std::nullopt;
}

std::optional<double> number_in(Env& env, const std::string& path) {
  const auto text = env.read(path, kMostBytes);
  if (!text.ok()) return std::nullopt;
  return number_of<double>(std::string_view(*text).substr(0, text->find_first_of(" \n")));
}

// In CPUs; nothing: no limit, or not known.
std::optional<double> quota_of(Env& env, const Hierarchy& hierarchy, const std::string& folder) {
  std::optional<double> quota, period;
  if (hierarchy.v2) {
    const auto text = env.read(folder + "/cpu.max", kMostBytes);
    const auto fields =
        text.ok() ? split(text->substr(0, text->find('\n')), ' ') : std::vector<std::string>();
    if (fields.size() == 2) {
      quota = number_of<double>(fields[0]);  // "max": none
      period = number_of<double>(fields[1]);
    }
  } else {
    quota = number_in(env, folder + "/cpu.cfs_quota_us");  // -1: none
    period = number_in(env, folder + "/cpu.cfs_period_us");
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

std::optional<double> smaller(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

std::optional<double> quota_in(Env& env, const Hierarchy& hierarchy, const std::string& groups) {
  auto group = group_in(hierarchy, groups);
  if (!group) return std::nullopt;
  // A container may see its own group as the mount's root, and be told its whole path.
  if (hierarchy.root != "/" && group->starts_with(hierarchy.root))
    group->erase(0, hierarchy.root.size());
  if (group->find("/..") != std::string::npos) *group = "";  // outside of what is mounted
  std::optional<double> quota;
  for (std::string below = *group;;) {
    while (below.ends_with('/')) below.pop_back();
    quota = smaller(quota, quota_of(env, hierarchy, hierarchy.mount + below));
    if (below.empty()) return quota;
    below.erase(below.rfind('/'));
  }
}

}  // namespace

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  const int count = known ? CPU_COUNT(&set) : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, count);
}

std::optional<double> cpu_quota(Env& env) {
  const auto groups = env.read("/proc/self/cgroup", kMostBytes);
  const auto mounts = env.read("/proc/self/mountinfo", kMostBytes);
  if (!groups.ok() || !mounts.ok()) return std::nullopt;
  std::optional<double> quota;
  for (const std::string& line : split(*mounts, '\n'))
    if (const auto hierarchy = hierarchy_of(line))
      quota = smaller(quota, quota_in(env, *hierarchy, *groups));
  return quota;
}

int cpus_for_workers(Env& env) {
  const int usable = usable_cpus();
  const auto quota = cpu_quota(env);
  if (!quota || *quota >= usable) return usable;
  return std::max(1, static_cast<int>(std::ceil(*quota)));
}

}  // namespace lockstep
