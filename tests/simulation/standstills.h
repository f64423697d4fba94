// Shares that take minutes, and debuggers: nobody that gets on again by itself is to be ended for
// it, unless others have waited for too long. Its draws are its own.
#pragma once

#include <cstdint>

#include "simulation/scene.h"

namespace lockstep::simulation {

class Standstills {
 public:
  explicit Standstills(Scene& scene) : scene_(scene) {}
  void plan(std::uint64_t seed);

 private:
  void stand_still(std::uint64_t kind, std::uint64_t lasts);

  Scene& scene_;
};

}  // namespace lockstep::simulation
