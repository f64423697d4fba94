#include "simulation/time_limit_faults.h"

#include <csignal>

namespace lockstep::simulation {

void TimeLimitFaults::plan(std::uint64_t seed) {
  Random random(~seed);
  const std::uint64_t all =
      scene_.plan.transactions * scene_.plan.virtual_workers * scene_.host.step_time;
  scene_.host.time_limit = random.between(kMillisecond, all);
  for (std::uint64_t i = random.between(0, 3); i > 0; --i)
    if (random.chance(0.5))
      scene_.clock.after(random.between(0, 60 * kMillisecond), [this] { fault_at_the_stop(2000); });
}

// Once the time is up, or the last step recorded: whichever is seen first.
void TimeLimitFaults::fault_at_the_stop(int tries) {
  if (scene_.agent->exit_code() || tries == 0) return;
  if (!scene_.agent->time_is_up() && scene_.host.stop_file == 0) {
    scene_.clock.after(kMillisecond, [this, tries] { fault_at_the_stop(tries - 1); });
    return;
  }
  scene_.clock.after(scene_.random.between(0, 30 * kMillisecond), [this] {
    if (scene_.agent->exit_code()) return;
    ++scene_.outcome.faults;
    scene_.last_fault = scene_.clock.now();
    SimWorker* worker = scene_.victim();
    if (scene_.random.chance(0.3)) return scene_.kill_everybody();
    if (worker != nullptr) worker->end({-1, SIGKILL});
  });
}

}  // namespace lockstep::simulation
