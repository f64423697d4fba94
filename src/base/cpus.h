// How many CPUs there are.
#pragma once

#include <optional>

#include "base/env.h"

namespace lockstep {

// That this process may run on (taskset, cpusets); at least 1.
int usable_cpus();

// What the control groups of this process, and all that they are in, leave to it: the smallest
// quota, in CPUs (docker run --cpus, Kubernetes' limits, systemd's CPUQuota=). Nothing: no quota.
// cgroup v1 (cpu.cfs_quota_us) and v2 (cpu.max).
std::optional<double> cpu_quota(Env& env);

// As many workers as can compute at once: usable_cpus(), or the quota, rounded up, if it is less.
int cpus_for_workers(Env& env);

}  // namespace lockstep
