// How much memory this thread has asked for with `new` so far, in bytes: what it costs to copy and
// to write, by counting.
#pragma once

#include <cstdint>

namespace lockstep::simulation {

std::uint64_t allocated();

}  // namespace lockstep::simulation
