#include "data/image/resize_kernels.h"

#include <algorithm>

#include "data/image/image.h"
#include "data/image/resize_avx2.h"
#include "data/image/resize_avx512.h"

namespace lockstep::data::image {
namespace {

constexpr int kLargest = 255;

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, kLargest));
}

void across_plain(const std::uint8_t* in, const Taps& taps, std::uint8_t* out) {
  const std::int32_t* weights = taps.weights.data();
  for (const Taps::Span span : taps.spans) {
    const std::uint8_t* pixel = in + std::ptrdiff_t{span.first} * kChannels;
    std::int32_t red = kHalfWeight;
    std::int32_t green = kHalfWeight;
    std::int32_t blue = kHalfWeight;
    for (int x = 0; x < span.count; ++x, pixel += kChannels) {
      red += pixel[0] * weights[x];
      green += pixel[1] * weights[x];
      blue += pixel[2] * weights[x];
    }
    *out++ = rounded(red);
    *out++ = rounded(green);
    *out++ = rounded(blue);
    weights += taps.stride;
  }
}

void down_plain(const std::uint8_t* in, std::ptrdiff_t row, const std::int32_t* weights, int count,
                std::uint8_t* out, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    std::int32_t sum = kHalfWeight;
    for (int y = 0; y < count; ++y)
      sum += in[y * row + static_cast<std::ptrdiff_t>(i)] * weights[y];
    out[i] = rounded(sum);
  }
}

void nothing(Taps&) {}

constexpr ResizeKernels kPlain{nothing, across_plain, down_plain};

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0;
}

}  // namespace

const ResizeKernels& plain_resize_kernels() { return kPlain; }

std::vector<const ResizeKernels*> supported_resize_kernels() {
  std::vector<const ResizeKernels*> all = {&kPlain};
  if (__builtin_cpu_supports("avx2") != 0) all.push_back(&avx2_resize_kernels());
  if (has_avx512()) all.push_back(&avx512_resize_kernels());
  return all;
}

const ResizeKernels& resize_kernels() {
  static const ResizeKernels& fastest = *supported_resize_kernels().back();
  return fastest;
}

}  // namespace lockstep::data::image
