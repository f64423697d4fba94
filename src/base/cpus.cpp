#include "base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <thread>

#include "base/control_groups.h"
#include "base/text.h"

namespace lockstep {
namespace {

std::optional<double> number_in(std::string_view text) {
  return number_of<double>(text.substr(0, text.find_first_of(" \n")));
}

std::optional<double> smaller(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

// In CPUs; nothing: no limit, or not known.
std::optional<double> quota_of(const ControlGroups& groups, const ControlGroup& group) {
  std::optional<double> quota, period;
  if (group.v2) {
    const std::string text = groups.read(group, "cpu.max");
    const auto fields = split(text.substr(0, text.find('\n')), ' ');
    if (fields.size() == 2) {
      quota = number_of<double>(fields[0]);  // "max": none
      period = number_of<double>(fields[1]);
    }
  } else {
    quota = number_in(groups.read(group, "cpu.cfs_quota_us"));  // -1: none
    period = number_in(groups.read(group, "cpu.cfs_period_us"));
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

// Of the group and all that it is in.
std::optional<double> smallest_quota(const ControlGroups& groups, ControlGroup group) {
  std::optional<double> quota;
  for (;;) {
    quota = smaller(quota, quota_of(groups, group));
    if (group.folder.size() <= group.mount.size()) return quota;
    group.folder.erase(group.folder.rfind('/'));
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
  const ControlGroups groups(env);
  std::optional<double> quota;
  for (const ControlGroup& group : groups.of("self", "cpu"))
    quota = smaller(quota, smallest_quota(groups, group));
  return quota;
}

int cpus_for_workers(Env& env) {
  const int usable = usable_cpus();
  const auto quota = cpu_quota(env);
  if (!quota || *quota >= usable) return usable;
  return std::max(1, static_cast<int>(std::ceil(*quota)));
}

}  // namespace lockstep
