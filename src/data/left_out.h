// Says which samples a data set leaves out as damaged: each once in a run, the first 20 by name.
// Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/data.h"

namespace lockstep::data {

// In training `sound` stands in for `id`.
void say_replaced(const Dataset& set, std::int64_t id, std::int64_t sound);
// Those of `asked` that are not in `given`, in an evaluation.
void say_left_out(const Dataset& set, std::span<const std::int64_t> asked,
                  std::span<const std::int64_t> given);
// " (one of them: PATH: WHY)", for the end of a message; empty where nothing is known.
std::string because(const Dataset& set, std::int64_t id);

}  // namespace lockstep::data
