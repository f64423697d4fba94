// What data sets and samplers do with ids.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::data {

// kUsage unless each is from 0 to size - 1.
Status check_ids(std::span<const std::int64_t> ids, std::int64_t size);

// torch.randperm(n, generator=generator). May throw what ATen throws.
std::vector<std::int64_t> randperm(std::int64_t n, const at::Generator& generator);

}  // namespace lockstep::data
