#include "data/image/pixel_values.h"

#include <immintrin.h>

#include <bit>
#include <cmath>

namespace lockstep::data::image {
namespace {

constexpr float kTop = 255.0F;
constexpr float kInverseTop = 1.0F / kTop;

// a / b by multiplication with b's reciprocal and one step of correction (Markstein): mostly the
// quotient's bits, and checked for each value that a byte can take.
float quotient(float a, float b, float inverse) {
  const float guess = a * inverse;
  return std::fma(std::fma(-guess, b, a), inverse, guess);
}

struct Channel {
  float mean, std, inverse_std;
};

__attribute__((target("avx2,fma"))) __m256 quotient8(__m256 a, __m256 b, __m256 inverse) {
  const __m256 guess = _mm256_mul_ps(a, inverse);
  return _mm256_fmadd_ps(_mm256_fnmadd_ps(guess, b, a), inverse, guess);
}

__attribute__((target("avx2,fma"))) void values8(__m128i bytes, const Channel& channel,
                                                 float* out) {
  const __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
  const __m256 unit = quotient8(v, _mm256_set1_ps(kTop), _mm256_set1_ps(kInverseTop));
  const __m256 centred = _mm256_sub_ps(unit, _mm256_set1_ps(channel.mean));
  _mm256_storeu_ps(
      out, quotient8(centred, _mm256_set1_ps(channel.std), _mm256_set1_ps(channel.inverse_std)));
}

__attribute__((target("avx2,fma"))) void values16(__m128i bytes, bool flipped,
                                                  const Channel& channel, float* out) {
  if (flipped) {
    const __m128i turned = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    bytes = _mm_shuffle_epi8(bytes, turned);
  }
  values8(bytes, channel, out);
  values8(_mm_srli_si128(bytes, 8), channel, out + 8);
}

constexpr int kStep = 16;  // pixels

// Bytes c, c + 3, c + 6 and so on of 48.
__attribute__((target("avx2"))) __m128i channel_of(__m128i a, __m128i b, __m128i c, int channel) {
  alignas(16) static constexpr std::int8_t kFrom[3][3][16] = {
      {{0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
       {-1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14, -1, -1, -1, -1, -1},
       {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13}},
      {{1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
       {-1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1},
       {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14}},
      {{2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1},
       {-1, -1, -1, -1, -1, 1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1},
       {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15}}};
  const auto* from = reinterpret_cast<const __m128i*>(kFrom[channel]);
  return _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(a, _mm_load_si128(from)),
                                   _mm_shuffle_epi8(b, _mm_load_si128(from + 1))),
                      _mm_shuffle_epi8(c, _mm_load_si128(from + 2)));
}

__attribute__((target("avx2"))) __m128i load(const std::uint8_t* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

// Whole steps of a row; returns how many pixels that is.
__attribute__((target("avx2,fma"))) int steps(const std::uint8_t* first, const PixelView& view,
                                              int count, bool flipped,
                                              const std::array<Channel, kChannels>& channels,
                                              float* out, std::size_t plane) {
  int x = 0;
  for (; x + kStep <= count; x += kStep) {
    float* to = out + (flipped ? count - kStep - x : x);
    const std::uint8_t* from = first + x * view.pixel;
    if (view.pixel == 1) {
      for (int c = 0; c < kChannels; ++c)
        values16(load(from + c * view.plane), flipped, channels[static_cast<std::size_t>(c)],
                 to + static_cast<std::size_t>(c) * plane);
    } else {
      const __m128i a = load(from);
      const __m128i b = load(from + 16);
      const __m128i c = load(from + 32);
      values16(channel_of(a, b, c, 0), flipped, channels[0], to);
      values16(channel_of(a, b, c, 1), flipped, channels[1], to + plane);
      values16(channel_of(a, b, c, 2), flipped, channels[2], to + 2 * plane);
    }
  }
  return x;
}

bool has_fma() { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; }

}  // namespace

PixelValues::PixelValues(const std::array<float, kChannels>& mean,
                         const std::array<float, kChannels>& std)
    : mean_(mean), std_(std) {
  bool equal = true;
  for (std::size_t c = 0; c < table_.size(); ++c) {
    inverse_std_[c] = 1.0F / std[c];
    for (std::size_t v = 0; v < table_[c].size(); ++v) {
      const auto value = static_cast<float>(v);
      table_[c][v] = (value / kTop - mean[c]) / std[c];
      const float fast =
          quotient(quotient(value, kTop, kInverseTop) - mean[c], std[c], inverse_std_[c]);
      equal =
          equal && std::bit_cast<std::uint32_t>(fast) == std::bit_cast<std::uint32_t>(table_[c][v]);
    }
  }
  computed_ = equal && has_fma();
}

void PixelValues::row(const std::uint8_t* first, const PixelView& view, int count, bool flipped,
                      float* out, std::size_t plane) const {
  int x = 0;
  if (computed_ && (view.pixel == 1 || view.interleaved())) {
    std::array<Channel, kChannels> channels{};
    for (std::size_t c = 0; c < channels.size(); ++c)
      channels[c] = {mean_[c], std_[c], inverse_std_[c]};
    x = steps(first, view, count, flipped, channels, out, plane);
  }
  for (; x < count; ++x) {
    const std::uint8_t* pixel = first + x * view.pixel;
    float* to = out + (flipped ? count - 1 - x : x);
    for (int c = 0; c < kChannels; ++c)
      to[static_cast<std::size_t>(c) * plane] = at(c, pixel[c * view.plane]);
  }
}

}  // namespace lockstep::data::image
