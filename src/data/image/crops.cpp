#include "data/image/crops.h"

#include <algorithm>
#include <cmath>

namespace lockstep::data::image {
namespace {

// Python's round(): ties to even, as the default rounding mode has it.
int rounded(double value) { return static_cast<int>(std::nearbyint(value)); }

// torchvision pads by half, less on the left and top, and then has nothing to cut.
int middle(int in, int out) {
  if (out > in) return -((out - in) / 2);
  return rounded((in - out) / 2.0);
}

int drawn(int room, SampleRandom& random) {
  return static_cast<int>(random.below(static_cast<std::uint32_t>(room) + 1));
}

Region central(Size in, const std::array<double, 2>& ratio) {
  const auto [low, high] = std::minmax(ratio[0], ratio[1]);
  const double own = static_cast<double>(in.width) / in.height;
  Size out = in;
  if (own < low)
    out.height = rounded(in.width / low);
  else if (own > high)
    out.width = rounded(in.height * high);
  return {(in.width - out.width) / 2, (in.height - out.height) / 2, out.width, out.height};
}

float to_float(double value) { return static_cast<float>(value); }

}  // namespace

Region center_crop(Size in, Size out) {
  return {middle(in.width, out.width), middle(in.height, out.height), out.width, out.height};
}

Region random_crop(Size in, Size out, SampleRandom& random) {
  if (in == out) return {0, 0, out.width, out.height};
  const int top = drawn(in.height - out.height, random);
  const int left = drawn(in.width - out.width, random);
  return {left, top, out.width, out.height};
}

Region random_resized_crop(Size in, const std::array<double, 2>& scale,
                           const std::array<double, 2>& ratio, SampleRandom& random) {
  constexpr int kTries = 10;
  const double area = static_cast<double>(in.height) * in.width;
  const float low = to_float(std::log(static_cast<double>(to_float(ratio[0]))));
  const float high = to_float(std::log(static_cast<double>(to_float(ratio[1]))));
  for (int i = 0; i < kTries; ++i) {
    const double target = area * random.uniform(to_float(scale[0]), to_float(scale[1]));
    const double aspect = to_float(std::exp(static_cast<double>(random.uniform(low, high))));
    const int width = rounded(std::sqrt(target * aspect));
    const int height = rounded(std::sqrt(target / aspect));
    if (width < 1 || height < 1 || width > in.width || height > in.height) continue;
    const int top = drawn(in.height - height, random);
    const int left = drawn(in.width - width, random);
    return {left, top, width, height};
  }
  return central(in, ratio);
}

}  // namespace lockstep::data::image
