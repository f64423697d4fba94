#include "data/image/pixel_values.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "data/image/pixel_values_avx512.h"

namespace lockstep::data::image {
namespace {

constexpr float kFullScale = 255.0F;

// a / b by multiplication with 1 / b in two parts, rounded once but for the last bits of a tiny
// term: the quotient's bits, which is checked for each value that a byte can take.
float quotient(float a, const Reciprocal& b) { return std::fma(a, b.inverse, a * b.rest); }

using Channel = PixelValues::Channel;
using Channels = std::array<Channel, kChannels>;
using Block = PixelValues::Block;

__attribute__((target("avx2,fma"))) __m256 quotient8(__m256 a, const Reciprocal& b) {
  return _mm256_fmadd_ps(a, _mm256_set1_ps(b.inverse), _mm256_mul_ps(a, _mm256_set1_ps(b.rest)));
}

__attribute__((target("avx2,fma"))) void values8(__m128i bytes, const Channel& channel,
                                                 float* out) {
  const __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
  const __m256 unit = quotient8(v, kWhite);
  const __m256 centred = _mm256_sub_ps(unit, _mm256_set1_ps(channel.mean));
  _mm256_storeu_ps(out, quotient8(centred, channel.std));
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

// Steps of 16 pixels; the last one of a row goes over some a second time. width >= kStep.
template <bool kPlanar>
__attribute__((target("avx2,fma"))) void write_steps(const Block& block, const PixelView& view,
                                                     const Channels& channels) {
  const std::uint8_t* row = block.first;
  float* out = block.out;
  for (int y = 0; y < block.height; ++y, row += view.row, out += block.row)
    for (int step = 0; step < block.width; step += kStep) {
      const int x = std::min(step, block.width - kStep);
      float* to = out + (block.flipped ? block.width - kStep - x : x);
      if (kPlanar) {
        for (std::size_t c = 0; c < channels.size(); ++c)
          values16(load(row + x + static_cast<std::ptrdiff_t>(c) * view.plane), block.flipped,
                   channels[c], to + c * block.plane);
      } else {
        const std::uint8_t* from = row + x * kChannels;
        const __m128i a = load(from);
        const __m128i b = load(from + 16);
        const __m128i c = load(from + 32);
        values16(channel_of(a, b, c, 0), block.flipped, channels[0], to);
        values16(channel_of(a, b, c, 1), block.flipped, channels[1], to + block.plane);
        values16(channel_of(a, b, c, 2), block.flipped, channels[2], to + 2 * block.plane);
      }
    }
}

PixelValues::Vectors widest_here() {
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0)
    return PixelValues::Vectors::kNone;
  return __builtin_cpu_supports("avx512f") != 0 ? PixelValues::Vectors::kAvx512
                                                : PixelValues::Vectors::kAvx2;
}

}  // namespace

PixelValues::PixelValues(const std::array<float, kChannels>& mean,
                         const std::array<float, kChannels>& std) {
  bool equal = true;
  for (std::size_t c = 0; c < table_.size(); ++c) {
    channels_[c] = {mean[c], Reciprocal(std[c])};
    for (std::size_t v = 0; v < table_[c].size(); ++v) {
      const auto value = static_cast<float>(v);
      table_[c][v] = (value / kFullScale - mean[c]) / std[c];
      const float unit = quotient(value, kWhite);
      const float fast = quotient(unit - mean[c], channels_[c].std);
      equal =
          equal && std::bit_cast<std::uint32_t>(fast) == std::bit_cast<std::uint32_t>(table_[c][v]);
    }
  }
  if (equal) vectors_ = widest_here();
}

void PixelValues::write(const Block& block, const PixelView& view, Vectors widest) const {
  const Vectors vectors = block.width < kStep ? Vectors::kNone : std::min(vectors_, widest);
  const bool planar = view.pixel == 1;
  if (vectors == Vectors::kAvx512 && planar) return write_planes_avx512(block, view, channels_);
  if (vectors != Vectors::kNone && planar) return write_steps<true>(block, view, channels_);
  if (vectors != Vectors::kNone && view.interleaved())
    return write_steps<false>(block, view, channels_);
  for (int y = 0; y < block.height; ++y)
    for (int x = 0; x < block.width; ++x) {
      const std::uint8_t* pixel = block.first + y * view.row + x * view.pixel;
      float* to = block.out + static_cast<std::size_t>(y) * block.row +
                  (block.flipped ? block.width - 1 - x : x);
      for (int c = 0; c < kChannels; ++c)
        to[static_cast<std::size_t>(c) * block.plane] = at(c, pixel[c * view.plane]);
    }
}

}  // namespace lockstep::data::image
