// Of schedules with a time limit: faults around the stop that it makes. Its draws are its own, but
// for those at the stop itself.
#pragma once

#include <cstdint>

#include "simulation/scene.h"

namespace lockstep::simulation {

class TimeLimitFaults {
 public:
  explicit TimeLimitFaults(Scene& scene) : scene_(scene) {}
  void plan(std::uint64_t seed);

 private:
  void fault_at_the_stop(int tries);

  Scene& scene_;
};

}  // namespace lockstep::simulation
