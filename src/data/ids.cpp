#include "data/ids.h"

#include <ATen/ops/randperm.h>

#include <string>

namespace lockstep::data {

Status check_ids(std::span<const std::int64_t> ids, std::int64_t size) {
  for (const std::int64_t id : ids)
    if (id < 0 || id >= size)
      return Error{ErrorKind::kUsage, "data: sample " + std::to_string(id) +
                                          " asked for, the set has 0 to " +
                                          std::to_string(size - 1)};
  return {};
}

std::vector<std::int64_t> randperm(std::int64_t n, const at::Generator& generator) {
  const at::Tensor order = at::randperm(n, generator, at::kLong);
  const auto* first = order.const_data_ptr<std::int64_t>();
  return {first, first + order.numel()};
}

}  // namespace lockstep::data
