#include "base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace lockstep {

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  const int count = known ? CPU_COUNT(&set) : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, count);
}

}  // namespace lockstep
