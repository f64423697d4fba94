// What a tensor's bytes are as numbers: every dtype of checkpoint/tensor.h that is read, as double,
// exact but for whole numbers above 2^53. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/tensor.h"

namespace lockstep::inspect {

// In the order of the elements, in fp64: equal bytes give equal sums. NaN where one of them is.
double sum_of(checkpoint::DType dtype, std::span<const std::byte> bytes);

struct Difference {
  std::uint64_t elements = 0;   // all
  std::uint64_t differing = 0;  // whose bits are not equal
  double largest = 0;           // |a - b|; NaN where one of a differing pair is
};
// Both have the dtype and as many bytes.
Difference compare(checkpoint::DType dtype, std::span<const std::byte> a,
                   std::span<const std::byte> b);

}  // namespace lockstep::inspect
