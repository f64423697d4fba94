#include "data/image/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "data/image/resize_kernels.h"

namespace lockstep::data::image {
namespace {

// Pillow's rounding: half up by cutting, of what is not negative here.
int cut(double value) { return static_cast<int>(value); }

// Which inputs make output i, and with what weight.
Taps taps_of(int in, int out) {
  const double scale = static_cast<double>(in) / out;
  const double support = std::max(scale, 1.0);
  const double inverse = 1.0 / support;
  Taps taps;
  taps.stride = static_cast<int>(std::ceil(support)) * 2 + 1;
  taps.spans.resize(static_cast<std::size_t>(out));
  taps.weights.assign(taps.spans.size() * static_cast<std::size_t>(taps.stride), 0);
  std::vector<double> exact(static_cast<std::size_t>(taps.stride));
  for (int i = 0; i < out; ++i) {
    const double centre = (i + 0.5) * scale;
    const int first = std::max(0, cut(centre - support + 0.5));
    const int count = std::min(in, cut(centre + support + 0.5)) - first;
    double sum = 0;
    for (int x = 0; x < count; ++x) {
      const double distance = std::abs((x + first - centre + 0.5) * inverse);
      sum += exact[static_cast<std::size_t>(x)] = distance < 1.0 ? 1.0 - distance : 0.0;
    }
    taps.spans[static_cast<std::size_t>(i)] = {first, count};
    std::int32_t* weights = taps.weights_of(i);
    for (int x = 0; x < count; ++x) {
      const double weight = sum != 0.0 ? exact[static_cast<std::size_t>(x)] / sum : 0.0;
      weights[x] = cut(0.5 + weight * (1 << kWeightBits));
    }
  }
  return taps;
}

PixelView across(const ResizeKernels& kernels, const PixelView& in, int width, Image& out) {
  Taps taps = taps_of(in.width, width);
  kernels.prepare(taps);
  out.resize(width, in.height);
  for (int y = 0; y < in.height; ++y) kernels.across(in.at(0, y), taps, out.row(y));
  return out.view();
}

void down(const ResizeKernels& kernels, const PixelView& in, int height, Image& out) {
  const Taps taps = taps_of(in.height, height);
  out.resize(in.width, height);
  for (int y = 0; y < height; ++y) {
    const Taps::Span span = taps.spans[static_cast<std::size_t>(y)];
    kernels.down(in.at(0, span.first), in.row, taps.weights_of(y), span.count, out.row(y),
                 out.row_bytes());
  }
}

}  // namespace

void resize_bilinear(const PixelView& in, int width, int height, Image& between, Image& out) {
  const ResizeKernels& kernels = resize_kernels();
  if (in.height == height && in.width == width) {
    out.resize(width, height);
    for (int y = 0; y < height; ++y) std::memcpy(out.row(y), in.at(0, y), out.row_bytes());
  } else if (in.height == height) {
    across(kernels, in, width, out);
  } else {
    down(kernels, in.width == width ? in : across(kernels, in, width, between), height, out);
  }
}

std::string text(Size size) {
  return std::to_string(size.height) + " x " + std::to_string(size.width);
}

std::size_t values_of(Size size) {
  return static_cast<std::size_t>(size.height) * static_cast<std::size_t>(size.width) * kChannels;
}

Size resized_to_side(Size in, int side, int max_side) {
  const bool upright = in.width <= in.height;
  const auto [low, high] = std::minmax(in.width, in.height);
  int to_low = side;
  int to_high = static_cast<int>(static_cast<double>(std::int64_t{side} * high) / low);
  if (max_side > 0 && to_high > max_side) {
    to_low = static_cast<int>(static_cast<double>(std::int64_t{max_side} * to_low) / to_high);
    to_high = max_side;
  }
  return upright ? Size{to_high, to_low} : Size{to_low, to_high};
}

}  // namespace lockstep::data::image
