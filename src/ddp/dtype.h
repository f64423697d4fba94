// Which tensors can be summed.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "comm/exchange.h"

namespace lockstep::ddp {

// nullopt: there is no sum of such elements.
inline std::optional<comm::DType> summed_dtype(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return comm::DType::kFloat32;
    case at::kDouble:
      return comm::DType::kFloat64;
    case at::kBFloat16:
      return comm::DType::kBFloat16;
    case at::kHalf:
      return comm::DType::kFloat16;
    default:
      return std::nullopt;
  }
}

}  // namespace lockstep::ddp
