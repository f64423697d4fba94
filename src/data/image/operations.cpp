#include "data/image/operations.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

namespace lockstep::data::image {
namespace {

constexpr int kTop = 255;
constexpr std::size_t kValues = 256;
using Table = std::array<std::uint8_t, kValues>;
using Tables = std::array<Table, kChannels>;
using Counts = std::array<std::int64_t, kValues>;

void look_up(Canvas& canvas, const Tables& tables) {
  canvas.replace([&](const PixelView& in, Image& out) {
    for (int y = 0; y < in.height; ++y) {
      const std::uint8_t* from = in.at(0, y);
      std::uint8_t* to = out.row(y);
      for (int x = 0; x < in.width; ++x, from += kChannels, to += kChannels) {
        to[0] = tables[0][from[0]];
        to[1] = tables[1][from[1]];
        to[2] = tables[2][from[2]];
      }
    }
  });
}

template <class Function>
Table table_of(Function function) {
  Table table{};
  for (std::size_t v = 0; v < kValues; ++v)
    table[v] = static_cast<std::uint8_t>(function(static_cast<int>(v)));
  return table;
}

template <class Function>
void each_value(Canvas& canvas, Function function) {
  const Table table = table_of(function);
  look_up(canvas, {table, table, table});
}

// Two histograms in turn, so that a run of equal values does not wait for itself.
std::array<Counts, kChannels> histograms(const PixelView& in) {
  std::array<std::array<std::array<std::uint32_t, kValues>, 2>, kChannels> counts{};
  for (int y = 0; y < in.height; ++y) {
    const std::uint8_t* pixel = in.at(0, y);
    for (int x = 0; x < in.width; ++x, pixel += kChannels)
      for (std::size_t c = 0; c < counts.size(); ++c) ++counts[c][x & 1][pixel[c]];
  }
  std::array<Counts, kChannels> sums{};
  for (std::size_t c = 0; c < sums.size(); ++c)
    for (std::size_t v = 0; v < kValues; ++v)
      sums[c][v] = std::int64_t{counts[c][0][v]} + counts[c][1][v];
  return sums;
}

int same(int v) { return v; }

Table stretched(const Counts& counts) {
  const auto used = [](std::int64_t count) { return count > 0; };
  const auto low = std::ranges::find_if(counts, used) - counts.begin();
  const auto high = counts.rend() - std::find_if(counts.rbegin(), counts.rend(), used) - 1;
  if (high <= low) return table_of(same);
  const double scale = 255.0 / static_cast<double>(high - low);
  const double offset = static_cast<double>(-low) * scale;
  return table_of([&](int v) { return std::clamp(static_cast<int>(v * scale + offset), 0, kTop); });
}

Table flattened(const Counts& counts) {
  std::int64_t all = 0;
  std::int64_t last = 0;
  for (const std::int64_t count : counts) {
    all += count;
    if (count > 0) last = count;
  }
  const std::int64_t step = (all - last) / kTop;
  if (step == 0) return table_of(same);
  std::int64_t sum = step / 2;
  return table_of([&](int v) {
    const std::int64_t before = sum;
    sum += counts[static_cast<std::size_t>(v)];
    return std::min<std::int64_t>(before / step, kTop);
  });
}

template <class Function>
void each_channel(Canvas& canvas, Function function) {
  const auto counts = histograms(canvas.pixels());
  look_up(canvas, {function(counts[0]), function(counts[1]), function(counts[2])});
}

// Pillow's ImagingBlend: float32, cut towards zero, clipped.
struct Blend {
  float factor;
  std::uint8_t operator()(int degenerate, int value) const {
    const float mixed =
        static_cast<float>(degenerate) + factor * static_cast<float>(value - degenerate);
    return static_cast<std::uint8_t>(std::clamp(mixed, 0.0F, 255.0F));
  }
};

constexpr int kLumaBits = 16;
int luma(const std::uint8_t* pixel) {
  return (pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + (1 << (kLumaBits - 1))) >>
         kLumaBits;
}

int mean_luma(const PixelView& in) {
  std::int64_t sum = 0;
  for (int y = 0; y < in.height; ++y)
    for (int x = 0; x < in.width; ++x) sum += luma(in.at(x, y));
  const double count = static_cast<double>(in.width) * in.height;
  const double half_up = static_cast<double>(sum) / count + 0.5;
  return static_cast<int>(half_up);
}

// Ones with a five in the middle, over 13, to the nearest: no sum of these is half way.
void sharpen_row(const PixelView& in, int y, const Blend& blend, std::uint8_t* out) {
  const std::uint8_t* above = in.at(0, y - 1);
  const std::uint8_t* here = in.at(0, y);
  const std::uint8_t* below = in.at(0, y + 1);
  for (int i = kChannels; i < (in.width - 1) * kChannels; ++i) {
    const int left = i - kChannels;
    const int right = i + kChannels;
    const int sum = above[left] + above[i] + above[right] + here[left] + 5 * here[i] + here[right] +
                    below[left] + below[i] + below[right];
    out[i] = blend((2 * sum + 13) / 26, here[i]);
  }
}

}  // namespace

void invert(Canvas& canvas) {
  each_value(canvas, [](int v) { return kTop - v; });
}

void posterize(Canvas& canvas, int bits) {
  const int mask = ~((1 << (8 - bits)) - 1);
  each_value(canvas, [=](int v) { return v & mask; });
}

void solarize(Canvas& canvas, double threshold) {
  each_value(canvas, [=](int v) { return v < threshold ? v : kTop - v; });
}

void autocontrast(Canvas& canvas) { each_channel(canvas, stretched); }
void equalize(Canvas& canvas) { each_channel(canvas, flattened); }

void adjust_brightness(Canvas& canvas, double factor) {
  const Blend blend{static_cast<float>(factor)};
  each_value(canvas, [&](int v) { return blend(0, v); });
}

void adjust_contrast(Canvas& canvas, double factor) {
  const Blend blend{static_cast<float>(factor)};
  const int mean = mean_luma(canvas.pixels());
  each_value(canvas, [&](int v) { return blend(mean, v); });
}

void adjust_saturation(Canvas& canvas, double factor) {
  const Blend blend{static_cast<float>(factor)};
  canvas.replace([&](const PixelView& in, Image& out) {
    for (int y = 0; y < in.height; ++y) {
      const std::uint8_t* from = in.at(0, y);
      std::uint8_t* to = out.row(y);
      for (int x = 0; x < in.width; ++x, from += kChannels, to += kChannels) {
        const int grey = luma(from);
        for (int c = 0; c < kChannels; ++c) to[c] = blend(grey, from[c]);
      }
    }
  });
}

void adjust_sharpness(Canvas& canvas, double factor) {
  const Blend blend{static_cast<float>(factor)};
  if (canvas.width() < 3 || canvas.height() < 3) return;  // nothing but border
  canvas.replace([&](const PixelView& in, Image& out) {
    for (int y = 0; y < in.height; ++y) {
      std::memcpy(out.row(y), in.at(0, y), out.row_bytes());
      if (y > 0 && y < in.height - 1) sharpen_row(in, y, blend, out.row(y));
    }
  });
}

}  // namespace lockstep::data::image
