// A tensor as what it is compared and hashed by. Threads: any that may read it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::optim {

// Precondition: contiguous, and outlives the bytes.
inline std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

// Another one after each write by way of the tensor; of an inference tensor always 0.
inline std::uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<std::uint32_t>(tensor._version());
}

}  // namespace lockstep::optim
