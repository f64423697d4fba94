// The inner loops of resize_bilinear(), for the instruction set of this machine; all give the same
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::data::image {

inline constexpr int kWeightBits = 22;
inline constexpr std::int32_t kHalfWeight = 1 << (kWeightBits - 1);  // added before rounding down

struct Taps {
  struct Span {
    int first = 0, count = 0;
  };
  int stride = 0;                     // weights from one output to the next
  std::vector<Span> spans;            // of each output
  std::vector<std::int32_t> weights;  // [output, stride]
  // What prepare() made of them.
  std::vector<std::int32_t> packed, offsets;
  int groups = 0;

  std::int32_t* weights_of(int i) {
    return weights.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(stride);
  }
  const std::int32_t* weights_of(int i) const {
    return weights.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(stride);
  }
};

struct ResizeKernels {
  // Before across(), once for all rows.
  void (*prepare)(Taps& taps);
  // One row of pixels to taps.spans.size() pixels. May read 16 bytes behind `in`'s row and write 4
  // behind `out`'s.
  void (*across)(const std::uint8_t* in, const Taps& taps, std::uint8_t* out);
  // `count` rows, `row` bytes apart, to one of `bytes` bytes.
  void (*down)(const std::uint8_t* in, std::ptrdiff_t row, const std::int32_t* weights, int count,
               std::uint8_t* out, std::size_t bytes);
};

const ResizeKernels& plain_resize_kernels();
// All that run here, the plain ones first, the fastest last.
std::vector<const ResizeKernels*> supported_resize_kernels();
const ResizeKernels& resize_kernels();  // the fastest

}  // namespace lockstep::data::image
