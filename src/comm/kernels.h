// The innermost loops, once per instruction set, all with the same bits. reduce.h is what others
// use.
//
// out may be one of the inputs; otherwise they do not overlap. Any alignment to the element's size.
// `scale` multiplies the sum once; exactly 1 leaves it untouched. 16-bit formats: each sum and the
// product are rounded to the dtype.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/exchange.h"

namespace lockstep::comm {

struct Kernels {
  void (*one)(void* out, const void* a, std::size_t count, float scale);
  void (*two)(void* out, const void* a, const void* b, std::size_t count, float scale);
  // (a + b) + c
  void (*three)(void* out, const void* a, const void* b, const void* c, std::size_t count,
                float scale);
  // Whether no element is infinite or NaN.
  bool (*finite)(const void* a, std::size_t count);
};

enum class Isa { kBaseline, kAvx2, kAvx512 };
std::vector<Isa> supported_isas();  // by this CPU, slowest first
const Kernels& kernels_for(DType dtype, Isa isa);
const Kernels& kernels_for(DType dtype);  // the CPU's best

// Copies past the caches; `out` 64-byte aligned. Before a release store may vouch for it:
// stream_fence().
void stream(std::byte* out, const std::byte* in, std::size_t bytes);
void stream_fence();

}  // namespace lockstep::comm
