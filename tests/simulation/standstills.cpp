#include "simulation/standstills.h"

#include <algorithm>

namespace lockstep::simulation {
namespace {

constexpr std::uint64_t kLongestSlow = 900 * kSecond;

}  // namespace

void Standstills::plan(std::uint64_t seed) {
  Random random(seed ^ 0x5107);
  for (std::uint64_t i = random.between(1, 2); i > 0; --i) {
    const std::uint64_t kind = random.between(0, 2);
    const std::uint64_t lasts =
        random.between(kSecond, random.chance(0.5) ? 20 * kSecond : kLongestSlow);
    scene_.clock.after(random.between(0, 300 * kMillisecond),
                       [this, kind, lasts] { stand_still(kind, lasts); });
  }
}

void Standstills::stand_still(std::uint64_t kind, std::uint64_t lasts) {
  if (scene_.agent->exit_code()) return;
  ++scene_.outcome.slowed;
  scene_.last_fault = scene_.clock.now();
  scene_.slack += lasts + lasts / 10;
  scene_.longest_slow = std::max(scene_.longest_slow, lasts + lasts / 10);
  if (kind == 0)
    for (SimWorker* worker : scene_.agent->alive())
      worker->slow_down(scene_.random.between(lasts, lasts + lasts / 10));
  SimWorker* worker = scene_.victim();
  if (worker == nullptr || kind == 0) return;
  if (kind == 1) return worker->slow_down(lasts);
  worker->stop();  // by a debugger: the agent is not told
  scene_.clock.after(lasts, [worker] {
    if (worker->alive()) worker->go_on();
  });
}

}  // namespace lockstep::simulation
